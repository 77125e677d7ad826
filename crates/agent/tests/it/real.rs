//! The real OpenCode, with a scripted model behind it. Everything is on loopback.
//!
//! The program is found through `NACRE_OPENCODE`, else where `cargo xtask test` puts it. Where
//! there is none, these tests say so and prove nothing.

mod office;

use std::time::{Duration, Instant};

use agent::configuration::Speaks;
use agent::event::{Change, Content, Happening, NewSession, Reason, ToolState};
use agent::prompt::Attachment;
use agent::review::ReviewRequest;
use agent::{Agent as _, ChannelKey, CommandDone, Prompt, Refused, Scope, SlashCommand};

use self::office::{Office, Wants, reason_of, text_of};

/// A cancel takes a third of a second; these run beside whatever else loads the machine.
const SOON: Duration = Duration::from_secs(10);

/// Starts an agent, or ends the test and says why.
macro_rules! office {
    ($wants:expr) => {
        match Office::open($wants).await {
            Ok(office) => office,
            Err(why) => {
                office::say_skipped(&why);
                return;
            }
        }
    };
}

mod authors;
mod compaction;
mod tools;

#[tokio::test]
async fn a_text_turn_streams_and_ends() {
    let mut office = office!(Wants::default());
    let events = office
        .ask(r#"!!{"text": "Hello from the scripted model."}"#)
        .await;
    assert_eq!(text_of(&events), "Hello from the scripted model.");
    assert_eq!(reason_of(&events), Reason::EndTurn);
    assert!(
        events
            .iter()
            .any(|event| matches!(event.happening, Happening::PartDelta { .. }))
    );
    assert_eq!(office.model.count_of("main"), 1);
    office.close().await;
}

#[tokio::test]
async fn a_tool_runs_once_and_its_files_are_listed() {
    let mut office = office!(Wants::default());
    let script = r#"make it
!!{"text": "I will.", "tool": "bash", "input": {"command": "echo hi > made.txt; exit 3", "description": "make"}}
!!{"text": "Made."}"#;
    let events = office.ask(script).await;
    assert_eq!(text_of(&events), "I will.\n\nMade.");
    let tools: Vec<(ToolState, Option<i64>)> = events
        .iter()
        .filter_map(|event| match &event.happening {
            Happening::PartWhole {
                content: Content::Tool(tool),
                ..
            } => Some((tool.state, tool.exit_code)),
            _ => None,
        })
        .collect();
    assert_eq!(tools.first().unwrap().0, ToolState::Pending);
    assert_eq!(*tools.last().unwrap(), (ToolState::Completed, Some(3)));
    let changed = office
        .until(|event| match &event.happening {
            Happening::FilesChanged { files, .. } => Some(files.clone()),
            _ => None,
        })
        .await;
    assert_eq!(
        (changed[0].path.as_str(), changed[0].change),
        ("made.txt", Change::Added)
    );
    office.close().await;
}

#[tokio::test]
async fn a_canceled_turn_ends_and_the_next_prompt_is_answered() {
    let mut office = office!(Wants::default());
    office
        .start(r#"!!{"text": "one two three four five six seven", "delay_ms": 200}"#)
        .await;
    office
        .until(|event| matches!(event.happening, Happening::PartDelta { .. }).then_some(()))
        .await;
    let began = Instant::now();
    // The next prompt comes before the agent has ended the first.
    let agent = office.agent.clone();
    let canceled = async { agent.cancel(Scope::Channel(ChannelKey::web())).await };
    let next = office.accept(r#"!!{"text": "second answer"}"#);
    let (canceled, next) = tokio::join!(canceled, next);
    assert_eq!(canceled.unwrap().len(), 1);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    next.unwrap().start();
    let first = office.until_done().await;
    assert_eq!(reason_of(&first), Reason::Canceled);
    let second = office.until_done().await;
    assert_eq!(text_of(&second), "second answer");
    assert_eq!(reason_of(&second), Reason::EndTurn);
    office.close().await;
}

#[tokio::test]
async fn a_cancel_ends_a_tool_that_sleeps() {
    let mut office = office!(Wants::default());
    office.start_to_sleep().await;
    let began = Instant::now();
    office.agent.cancel(Scope::All).await.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(reason_of(&office.until_done().await), Reason::Canceled);
    office.close().await;
}

#[tokio::test]
async fn a_second_prompt_on_a_busy_channel_is_refused() {
    let mut office = office!(Wants::default());
    office
        .start(r#"!!{"text": "one two three", "delay_ms": 200}"#)
        .await;
    let second = office.accept("more").await;
    assert!(matches!(second, Err(Refused::Busy(_))), "{second:?}");
    assert_eq!(text_of(&office.until_done().await), "one two three");
    office.close().await;
}

#[tokio::test]
async fn channels_run_side_by_side() {
    let mut office = office!(Wants::default());
    let script = r#"!!{"text": "a b c d e f g h i j", "delay_ms": 100}"#;
    let other: ChannelKey = "slack:C1".parse().unwrap();
    office.start(script).await;
    let prompt = Prompt::text("other", other.clone(), script);
    office.agent.accept(prompt).await.unwrap().start();
    let mut streams = Vec::new();
    let mut ended = 0;
    while ended < 2 {
        let event = office.next().await;
        match event.happening {
            Happening::PartDelta { .. } => streams.push(event.channel),
            Happening::TurnDone { reason, .. } => {
                assert_eq!(reason, Reason::EndTurn);
                ended += 1;
            }
            _ => {}
        }
    }
    let first_other = streams.iter().position(|channel| *channel == other);
    let last_web = streams.iter().rposition(|channel| *channel != other);
    assert!(first_other < last_web, "one after the other: {streams:?}");
    office.close().await;
}

/// Each way to fail, and how often the failing model is asked.
async fn fails_over_from(model: &str) {
    let mut office = office!(Wants::default());
    let began = Instant::now();
    let first = format!("llm/{model}");
    office
        .start_with(
            &[&first, "llm/main"],
            r#"!!{"text": "answer of the other"}"#,
        )
        .await;
    let events = office.until_done().await;
    let took = began.elapsed();
    assert_eq!(text_of(&events), "answer of the other");
    assert_eq!(reason_of(&events), Reason::EndTurn);
    let switched = events.iter().any(|event| {
        matches!(&event.happening, Happening::ModelSwitched { from, .. } if from.model == model)
    });
    assert!(switched, "{events:#?}");
    // By itself the agent would try for more than a minute.
    assert!(took < Duration::from_secs(40), "{took:?}");
    assert_eq!(
        office.user_messages().await,
        1,
        "the prompt is in the history once"
    );
    office.close().await;
}

#[tokio::test]
async fn a_rate_limit_fails_over_within_seconds() {
    fails_over_from("bad-429").await;
}

#[tokio::test]
async fn an_overload_fails_over() {
    fails_over_from("bad-529").await;
}

#[tokio::test]
async fn a_bad_key_fails_over() {
    fails_over_from("bad-401").await;
}

#[tokio::test]
async fn a_billing_error_fails_over() {
    fails_over_from("bad-402").await;
}

#[tokio::test]
async fn a_server_error_fails_over() {
    fails_over_from("bad-500").await;
}

#[tokio::test]
async fn a_cut_stream_fails_over_and_its_text_is_withdrawn() {
    fails_over_from("bad-drop").await;
}

#[tokio::test]
async fn an_empty_answer_fails_over() {
    fails_over_from("bad-empty").await;
}

#[tokio::test]
async fn an_unknown_model_fails_over() {
    fails_over_from("bad-404").await;
}

#[tokio::test]
async fn a_model_that_the_agent_does_not_know_fails_over() {
    fails_over_from("never-heard-of").await;
}

#[tokio::test]
async fn a_chain_that_is_used_up_names_each_model_once() {
    let mut office = office!(Wants::default());
    office
        .start_with(&["llm/bad-401", "llm/bad-402"], "hello")
        .await;
    let events = office.until_done().await;
    assert_eq!(reason_of(&events), Reason::Error);
    let error = events.iter().find_map(|event| match &event.happening {
        Happening::TurnDone { error, .. } => error.clone(),
        _ => None,
    });
    let message = error.unwrap().message;
    assert!(
        message.contains("llm/bad-401: not authorised") && message.contains("llm/bad-402: billing"),
        "{message}"
    );
    office.close().await;
}

#[tokio::test]
async fn after_a_tool_has_run_no_other_model_is_asked() {
    let mut office = office!(Wants::default());
    let script = r#"!!{"tool": "bash", "input": {"command": "echo x >> once.txt", "description": "d"}}
!!{"error": 401}"#;
    office.start_with(&["llm/main", "llm/second"], script).await;
    let events = office.until_done().await;
    assert_eq!(reason_of(&events), Reason::Error);
    assert_eq!(office.model.count_of("second"), 0);
    assert_eq!(office.file("once.txt"), "x\n");
    office.close().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_loses_no_text() {
    let mut office = office!(Wants::default());
    office
        .start(r#"!!{"text": "one two three four five six seven eight nine ten", "delay_ms": 150}"#)
        .await;
    office
        .until(|event| matches!(event.happening, Happening::PartDelta { .. }).then_some(()))
        .await;
    office.cut_streams();
    let events = office.until_done().await;
    assert_eq!(
        text_of(&events),
        "one two three four five six seven eight nine ten"
    );
    assert_eq!(reason_of(&events), Reason::EndTurn);
    office.close().await;
}

#[tokio::test]
async fn a_restart_keeps_the_conversation() {
    let mut office = office!(Wants::default());
    office
        .ask(
            r#"remember the pearl !!
!!{"text": "noted"}"#,
        )
        .await;
    office.restart().await;
    let events = office.ask(r#"!!{"text": "still here"}"#).await;
    assert_eq!(text_of(&events), "still here");
    let is_new = events
        .iter()
        .any(|event| matches!(event.happening, Happening::SessionStarted { .. }));
    assert!(!is_new, "the session was kept");
    let sent = office.model.shown().pop().unwrap().to_string();
    assert!(
        sent.contains("remember the pearl"),
        "the model sees what was said"
    );
    office.close().await;
}

#[tokio::test]
async fn a_crash_in_mid_turn_closes_what_is_open() {
    let mut office = office!(Wants::default());
    office.start_to_sleep().await;
    office.kill().await;
    office.agent.process_ended("killed".to_owned()).await;
    let events = office.until_done().await;
    assert_eq!(reason_of(&events), Reason::Error);
    let last_tool = events
        .iter()
        .rev()
        .find_map(|event| match &event.happening {
            Happening::PartWhole {
                content: Content::Tool(tool),
                ..
            } => Some(tool.clone()),
            _ => None,
        });
    assert_eq!(last_tool.unwrap().state, ToolState::Error);
    office.launch().await;
    office.agent.process_started().await.unwrap();
    let events = office.ask(r#"!!{"text": "back"}"#).await;
    assert_eq!(text_of(&events), "back");
    office.close().await;
}

#[tokio::test]
async fn a_lost_session_is_made_anew_and_told_what_was_said() {
    let mut office = office!(Wants::default());
    office.ask(r#"!!{"text": "first"}"#).await;
    office.delete_sessions().await;
    let events = office.ask(r#"!!{"text": "second"}"#).await;
    assert_eq!(text_of(&events), "second");
    let lost = events.iter().any(|event| {
        matches!(
            event.happening,
            Happening::SessionStarted {
                why: NewSession::Lost,
                ..
            }
        )
    });
    assert!(lost, "{events:#?}");
    let sent = office.model.shown().pop().unwrap().to_string();
    assert!(sent.contains(office::MEMORY), "the new one is told");
    office.close().await;
}

#[tokio::test]
async fn a_question_with_two_items_waits_for_both_answers() {
    let mut office = office!(Wants::default());
    let script = r#"!!{"tool": "question", "input": {"questions": [{"question": "Which?", "header": "Color", "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}], "multiple": true}, {"question": "How many?", "header": "Count", "options": [{"label": "One", "description": "1"}]}]}}
!!{"text": "thanks"}"#;
    office.start(script).await;
    let question = office
        .until(|event| match &event.happening {
            Happening::Question(question) => Some(question.clone()),
            _ => None,
        })
        .await;
    let id = question.question;
    let both = vec!["Red".to_owned(), "Blue".to_owned()];
    office.agent.answer(id.clone(), 0, both).await.unwrap();
    assert!(!office.agent.held().await.unwrap()[0].questions.is_empty());
    office
        .agent
        .answer(id, 1, vec!["One".to_owned()])
        .await
        .unwrap();
    let events = office.until_done().await;
    assert_eq!(text_of(&events), "thanks");
    let sent = office.model.shown().pop().unwrap().to_string();
    assert!(sent.contains("Red, Blue"), "{sent}");
    office.close().await;
}

#[tokio::test]
async fn a_permission_is_asked_for_and_refused() {
    let mut office = office!(Wants {
        asks: true,
        ..Wants::default()
    });
    office
        .start(
            r#"!!{"tool": "bash", "input": {"command": "touch no.txt", "description": "d"}}
!!{"text": "after"}"#,
        )
        .await;
    let permission = office
        .until(|event| match &event.happening {
            Happening::Permission(permission) => Some(permission.clone()),
            _ => None,
        })
        .await;
    assert_eq!(permission.action, "bash");
    office.agent.refuse(permission.permission).await.unwrap();
    let events = office.until_done().await;
    assert_eq!(reason_of(&events), Reason::EndTurn);
    assert!(!office.exists("no.txt"));
    office.close().await;
}

#[tokio::test]
async fn undo_takes_files_back_and_redo_brings_them() {
    let mut office = office!(Wants::default());
    office
        .ask(
            r#"!!{"tool": "write", "input": {"filePath": "WORKSPACE/a.txt", "content": "A\n"}}
!!{"text": "wrote"}"#,
        )
        .await;
    assert!(office.exists("a.txt"));
    let web = ChannelKey::web();
    let diff = office.agent.diff(web.clone(), None).await.unwrap();
    assert!(
        diff.iter().any(|diff| diff.file.path == "a.txt"),
        "{diff:?}"
    );
    let undone = office.agent.command(web.clone(), SlashCommand::Undo).await;
    assert!(matches!(undone.unwrap(), CommandDone::Undone(_)));
    assert!(!office.exists("a.txt"));
    office
        .agent
        .command(web.clone(), SlashCommand::Redo)
        .await
        .unwrap();
    assert!(office.exists("a.txt"));
    office
        .agent
        .command(web, SlashCommand::Compact)
        .await
        .unwrap();
    office.close().await;
}

#[tokio::test]
async fn a_review_leaves_no_session_behind() {
    let office = office!(Wants::default());
    let findings = r#"{\"summary\": \"s\", \"findings\": [{\"file\": \"a\", \"severity\": \"critical\", \"title\": \"bug\"}]}"#;
    let before = office.sessions().await;
    let request = ReviewRequest {
        patch: format!("+x\n!!{{\"text\": \"{findings}\"}}"),
        focus: None,
        model: None,
    };
    let review = office.agent.review(request).await.unwrap();
    assert_eq!(review.counts.critical, 1);
    assert_eq!(office.sessions().await, before);
    office.close().await;
}

#[tokio::test]
async fn its_models_are_listed() {
    let office = office!(Wants::default());
    let models = office.agent.models().await.unwrap();
    assert!(
        models
            .iter()
            .any(|model| model.model.to_string() == "llm/main" && model.context == Some(200_000)),
        "{models:?}"
    );
    office.close().await;
}

/// A turn with a tool in another form of asking models.
async fn a_tool_turn_in(speaks: Speaks) {
    let mut office = office!(Wants {
        speaks,
        ..Wants::default()
    });
    let script = r#"make it
!!{"text": "I will.", "tools": [{"tool": "bash", "input": {"command": "echo a", "description": "d"}}, {"tool": "bash", "input": {"command": "echo b", "description": "d"}}]}
!!{"text": "Made."}"#;
    let events = office.ask(script).await;
    assert_eq!(text_of(&events), "I will.\n\nMade.");
    assert_eq!(reason_of(&events), Reason::EndTurn);
    office.close().await;
}

#[tokio::test]
async fn a_tool_turn_over_chat() {
    a_tool_turn_in(Speaks::OpenAiChat).await;
}

#[tokio::test]
async fn a_tool_turn_over_responses() {
    a_tool_turn_in(Speaks::OpenAiResponses).await;
}

#[tokio::test]
async fn an_image_reaches_the_model_before_the_text() {
    let mut office = office!(Wants::default());
    let mut prompt = Prompt::text("p", ChannelKey::web(), r#"!!{"text": "seen"}"#);
    // One red pixel.
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
    prompt.attachments.push(Attachment {
        name: "pixel.png".to_owned(),
        media_type: "image/png".to_owned(),
        data: pixel.to_owned(),
    });
    office.agent.accept(prompt).await.unwrap().start();
    assert_eq!(text_of(&office.until_done().await), "seen");
    let sent = office.model.shown().pop().unwrap().to_string();
    let (image, text) = (sent.find(pixel).unwrap(), sent.find("[Channel: ").unwrap());
    assert!(image < text);
    office.close().await;
}

#[tokio::test]
async fn a_session_that_works_for_somebody_else_is_aborted_before_it_is_adopted() {
    let mut office = office!(Wants::default());
    office
        .start(r#"!!{"text": "a b c d e f g h i j k l m n o p", "delay_ms": 500}"#)
        .await;
    let session = office
        .until(|event| match &event.happening {
            Happening::SessionStarted { session, .. } => Some(session.clone()),
            _ => None,
        })
        .await;
    office
        .until(|event| matches!(event.happening, Happening::PartDelta { .. }).then_some(()))
        .await;
    let (second, mut events) = office.second_client().await;
    let mut prompt = Prompt::text("p", ChannelKey::web(), r#"!!{"text": "mine now"}"#);
    prompt.session = Some(session);
    second.accept(prompt).await.unwrap().start();
    let text = loop {
        if let Happening::TurnDone { text, .. } = events.recv().await.unwrap().happening {
            break text;
        }
    };
    assert_eq!(text, "mine now");
    let first = office.until_done().await;
    assert_eq!(reason_of(&first), Reason::Error);
    office.close().await;
}

#[tokio::test]
async fn what_a_repository_brings_is_not_loaded() {
    let mut office = office!(Wants::default());
    let ran = "import fs from \"fs\"\nfs.writeFileSync(\"RAN\", \"\")\n\
        export default { id: \"evil\", setup: async () => {} }\n";
    for place in [".opencode/plugins/a.js", ".opencode/plugin/b.ts", "c.js"] {
        office.put(place, &ran.replace("RAN", "WORKSPACE/ran"));
    }
    office.put("opencode.json", r#"{"plugin": ["./c.js"]}"#);
    office.restart().await;
    let events = office.ask(r#"!!{"text": "done"}"#).await;
    assert_eq!(text_of(&events), "done");
    assert!(!office.exists("ran"));
    office.close().await;
}

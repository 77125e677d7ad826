//! What hub and agent have to do with each other, with the real agent.

use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fs_err as fs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wire::link::{
    Attachment, Author, Boot, FromHub, FromRunner, PartContent, Permissions, Policy, ReadUpload,
    Skill, SkillFile, Source, Transcriber, UploadPiece,
};

use super::world::{Whole, is_complete, with_agent};

/// One red pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

fn bash(command: &str) -> String {
    format!(
        "!!{{\"tool\": \"bash\", \"input\": {{\"command\": \"{command}\", \"description\": \"d\"}}}}\n\
         !!{{\"text\": \"done\"}}"
    )
}

fn attachment(name: &str, media_type: &str, source: Source) -> Attachment {
    Attachment {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        source,
    }
}

#[test]
fn the_models_are_told_before_it_is_ready() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        let heard = whole.hub.heard();
        let place =
            |is_it: fn(&FromRunner) -> bool| heard.iter().position(|frame| is_it(&frame.body));
        let hello = place(|frame| matches!(frame, FromRunner::Hello(_)));
        let models = place(|frame| matches!(frame, FromRunner::Models { .. }));
        let idle = place(|frame| matches!(frame, FromRunner::AgentStatus { channel: None, .. }));
        assert!(
            hello < models && models < idle,
            "{hello:?} {models:?} {idle:?}"
        );
        let FromRunner::Models { providers } = &heard[models.unwrap()].body else {
            unreachable!("it was found");
        };
        let [provider] = &providers[..] else {
            panic!("{providers:?}");
        };
        assert_eq!(
            (provider.id.as_str(), provider.name.as_str()),
            ("scripted", "Scripted")
        );
        assert_eq!(provider.models[0].id, "main");
        assert_eq!(provider.models[0].context_limit, Some(100_000));
        // Another configuration, another list.
        let place = heard.len();
        let mut boot = whole.boot();
        boot.agent.custom_providers[0].models[0].id = "other".to_owned();
        boot.agent.model = Some("scripted/other".to_owned());
        boot.agent.small_model = Some("scripted/other".to_owned());
        whole.hub.say(FromHub::AgentConfig(Box::new(boot.agent)));
        whole
            .heard_after(place, "the other models", |frame| {
                matches!(frame, FromRunner::Models { providers } if providers[0].models[0].id == "other")
            })
            .await;
    });
}

#[test]
fn skills_are_there_to_be_used_ours_and_those_that_the_hub_sends() {
    with_agent(async |mut whole| {
        let mut boot = whole.boot();
        let file = |path: &str, content: &str| SkillFile {
            path: path.to_owned(),
            content: content.to_owned(),
        };
        boot.content.skills = vec![Skill {
            name: "deploy".to_owned(),
            files: vec![
                file("SKILL.md", "# How to deploy\n\nPush to the lighthouse."),
                file("more/steps.txt", "first"),
            ],
        }];
        whole.start(boot);
        whole.is_ready().await;
        for (name, text) in [
            ("deploy", "Push to the lighthouse."),
            ("tunnels", "nacre_tunnels_register"),
            ("browser", "--screenshot"),
        ] {
            let use_it = format!(
                "!!{{\"tool\": \"skill\", \"input\": {{\"name\": \"{name}\"}}}}\n!!{{\"text\": \"done\"}}"
            );
            let end = whole.ask(&use_it).await;
            assert!(is_complete(&end), "{end:?}");
            whole
                .heard(text, |frame| match frame {
                    FromRunner::Part(part) => match &part.content {
                        PartContent::Tool(tool) => tool
                            .result
                            .as_ref()
                            .is_some_and(|result| result.contains(text)),
                        _ => false,
                    },
                    _ => false,
                })
                .await;
        }
        let steps = "/home/user/.nacre/agent/skills/deploy/more/steps.txt";
        assert_eq!(fs::read_to_string(steps).unwrap(), "first");
    });
}

#[test]
fn an_answer_is_taken_back_by_name_after_the_workplace_was_killed() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot.clone());
        whole.is_ready().await;
        let end = whole.ask(&bash("echo pearl > made.txt")).await;
        assert!(is_complete(&end), "{end:?}");
        let made = "/home/user/workspace/made.txt";
        assert!(fs::exists(made).unwrap());
        let message = whole
            .heard("the answer", |frame| {
                matches!(frame, FromRunner::Message { .. })
            })
            .await;
        let FromRunner::Message { message_id, .. } = message else {
            unreachable!("it was waited for");
        };
        whole.kill().await;
        let place = whole.hub.heard().len();
        whole.start(boot);
        whole.is_ready_after(place).await;
        whole.hub.say(FromHub::Revert {
            message_id: message_id.clone(),
            request_id: Some("r1".to_owned()),
            channel: None,
        });
        let reverted = whole
            .heard("the revert", |frame| {
                matches!(frame, FromRunner::Reverted { .. })
            })
            .await;
        let FromRunner::Reverted {
            message_ids, error, ..
        } = reverted
        else {
            unreachable!("it was waited for");
        };
        assert_eq!((error, message_ids), (None, vec![message_id]));
        assert!(!fs::exists(made).unwrap());
    });
}

#[test]
fn a_commit_of_a_turn_carries_the_name_of_who_asked_for_it() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        for (git_name, expected) in [
            (Some("Ada"), "Ada <ada@example.com>"),
            (None, "Nacre <nacre@localhost>"),
        ] {
            let mut prompt = whole.prompt(&bash(
                "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>' > by",
            ));
            prompt.author = git_name.map(|name| Author {
                id: "usr_1".to_owned(),
                git_name: Some(name.to_owned()),
                email: Some("ada@example.com".to_owned()),
                ..Author::default()
            });
            let end = whole.send(prompt).await;
            assert!(is_complete(&end), "{end:?}");
            let by = fs::read_to_string("/home/user/workspace/by").unwrap();
            assert_eq!(by.trim(), expected);
        }
    });
}

#[test]
fn attachments_come_by_file_and_by_upload_and_from_nowhere_else() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        let pixel = STANDARD.decode(PIXEL).unwrap();
        fs::write("/home/user/workspace/pixel.png", &pixel).unwrap();
        fs::write("/home/user/secret.png", &pixel).unwrap();
        std::os::unix::fs::symlink("/home/user/secret.png", "/home/user/workspace/link.png")
            .unwrap();
        // A text in two pieces, as the hub has it.
        let text = "pearl ".repeat(100_000);
        serve_upload(&whole, text.clone().into_bytes());

        let mut prompt = whole.prompt(r#"!!{"text": "seen"}"#);
        prompt.attachments = vec![
            attachment(
                "pixel.png",
                "image/png",
                Source::File("pixel.png".to_owned()),
            ),
            attachment(
                "notes.txt",
                "text/plain",
                Source::Upload("upl_1".to_owned()),
            ),
        ];
        let end = whole.send(prompt).await;
        assert!(is_complete(&end), "{end:?}");
        let asked = whole.model.shown().pop().unwrap().to_string();
        assert!(asked.contains(PIXEL), "the image");
        assert!(asked.contains(text.trim()), "the text, whole");

        let refused = [
            (
                Source::File("../secret.png".to_owned()),
                "not in the workspace",
            ),
            (
                Source::File("/home/user/secret.png".to_owned()),
                "not in the workspace",
            ),
            (Source::File("link.png".to_owned()), "link.png"),
            (Source::File("none.png".to_owned()), "none.png"),
            (Source::Upload("upl_none".to_owned()), "no such upload"),
            (
                Source::Upload("upl_huge".to_owned()),
                "9000000 are the limit",
            ),
        ];
        let before = whole.model.count();
        for (source, why) in refused {
            let mut prompt = whole.prompt(r#"!!{"text": "seen"}"#);
            prompt.attachments = vec![attachment("x.png", "image/png", source)];
            let end = whole.send(prompt).await;
            let FromRunner::Error(error) = end else {
                panic!("{end:?}");
            };
            assert_eq!(error.code, "bad_prompt");
            assert!(error.message.contains(why), "{}", error.message);
        }
        assert_eq!(whole.model.count(), before, "the model was not asked");
    });
}

fn serve_upload(whole: &Whole, content: Vec<u8>) {
    whole.hub.answer_with(Box::new(move |asked| {
        if asked.kind != "read_upload" {
            return Some(Ok(serde_json::Value::Null));
        }
        let ask: ReadUpload = serde_json::from_value(asked.payload.clone()).unwrap();
        let piece = match ask.upload.as_str() {
            "upl_1" => {
                let from = usize::try_from(ask.offset).unwrap();
                let to = (from + usize::try_from(ask.length).unwrap()).min(content.len());
                UploadPiece {
                    data: STANDARD.encode(&content[from..to]),
                    size: content.len() as u64,
                }
            }
            "upl_huge" => UploadPiece {
                data: STANDARD.encode([0; 16]),
                size: 1 << 40,
            },
            _ => {
                return Some(Err(wire::link::Failed {
                    code: "not_found".to_owned(),
                    message: "no such upload".to_owned(),
                }));
            }
        };
        Some(Ok(serde_json::to_value(piece).unwrap()))
    }));
}

#[test]
fn a_picture_that_a_tool_looked_at_is_shown() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        let pixel = STANDARD.decode(PIXEL).unwrap();
        fs::write("/home/user/workspace/pixel.png", pixel).unwrap();
        let look = concat!(
            r#"!!{"tool": "read", "input": {"filePath": "/home/user/workspace/pixel.png"}}"#,
            "\n",
            r#"!!{"text": "red"}"#
        );
        let end = whole.ask(look).await;
        assert!(is_complete(&end), "{end:?}");
        let heard = whole.hub.heard();
        let images: Vec<_> = heard
            .iter()
            .filter_map(|frame| match &frame.body {
                FromRunner::Image {
                    image, prompt_id, ..
                } => Some((image, prompt_id)),
                _ => None,
            })
            .collect();
        let [(image, prompt)] = images[..] else {
            panic!("{images:?}");
        };
        assert_eq!(image.media_type, "image/png");
        assert_eq!(image.source, Source::Data(PIXEL.to_owned()));
        assert!(prompt.is_some());
    });
}

#[test]
fn what_is_on_the_desktop_is_shown_and_kept() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        // There is no screen here: what reads one is stood in for, and nothing else.
        let grabs = format!("#!/bin/sh\necho {PIXEL} | base64 -d\n");
        let program = "/usr/local/bin/ffmpeg";
        let _ = fs::remove_file(program);
        fs::write(program, grabs).unwrap();
        fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
        let shot = concat!(
            r#"!!{"tool": "nacre_browser_screenshot", "input": {"filename": "shots/now.png"}}"#,
            "\n",
            r#"!!{"text": "seen"}"#
        );
        let end = whole.ask(shot).await;
        assert!(is_complete(&end), "{end:?}");
        let heard = whole.hub.heard();
        let shown = heard.iter().find_map(|frame| match &frame.body {
            FromRunner::Image { image, .. } => Some(image),
            _ => None,
        });
        assert_eq!(shown.unwrap().source, Source::Data(PIXEL.to_owned()));
        let kept = fs::read("/home/user/workspace/shots/now.png").unwrap();
        assert_eq!(STANDARD.encode(kept), PIXEL);
    });
}

/// A tenth of a second of silence, in two channels of 44,100 samples.
fn silence() -> Vec<u8> {
    let (rate, channels, samples) = (44_100_u32, 2_u32, 4_410_u32);
    let data = samples * channels * 2;
    let mut wave = Vec::new();
    wave.extend_from_slice(b"RIFF");
    wave.extend_from_slice(&(36 + data).to_le_bytes());
    wave.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x02\0");
    wave.extend_from_slice(&rate.to_le_bytes());
    wave.extend_from_slice(&(rate * channels * 2).to_le_bytes());
    wave.extend_from_slice(b"\x04\0\x10\0data");
    wave.extend_from_slice(&data.to_le_bytes());
    wave.resize(44 + data as usize, 0);
    wave
}

#[test]
fn a_voice_note_is_refused_until_somebody_can_hear_it() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot.clone());
        whole.is_ready().await;
        let mut note = whole.prompt(r#"!!{"text": "heard"}"#);
        note.attachments = vec![attachment(
            "note.ogg",
            "audio/ogg",
            Source::Data(STANDARD.encode(silence())),
        )];
        let end = whole.send(note.clone()).await;
        assert!(
            matches!(&end, FromRunner::Error(error) if error.message.contains("speech into text")),
            "{end:?}"
        );

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut agent = boot.agent;
        agent.transcriber = Some(Transcriber {
            base_url: format!("http://{}/v1", listener.local_addr().unwrap()),
            model: "whisper".to_owned(),
        });
        whole.hub.say(FromHub::AgentConfig(Box::new(agent)));
        let asked = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&asked);
        let stand_in = async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"--\r\n") {
                assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
            }
            *kept.borrow_mut() = bytes;
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{\"text\":\"buy milk\"}";
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        note.id = "again".to_owned();
        let (end, ()) = tokio::join!(whole.send(note), stand_in);
        assert!(is_complete(&end), "{end:?}");
        let asked = asked.take();
        assert!(asked.starts_with(b"POST /v1/audio/transcriptions"));
        // As its header says: one channel, 16,000 samples.
        let wave = asked.windows(4).position(|four| four == b"RIFF").unwrap();
        assert_eq!(asked[wave + 22..][..2], 1_u16.to_le_bytes());
        assert_eq!(asked[wave + 24..][..4], 16_000_u32.to_le_bytes());
        // A tenth of a second, two bytes a sample; and the header says so.
        assert_eq!(asked[wave + 40..][..4], 3200_u32.to_le_bytes());
        let told = whole.model.shown().pop().unwrap().to_string();
        assert!(told.contains("[Transcribed voice note] buy milk"), "{told}");
        whole
            .heard("the transcript", |frame| {
                matches!(frame, FromRunner::AudioTranscript { text, .. } if text == "buy milk")
            })
            .await;
    });
}

#[test]
fn an_agent_that_forgot_is_told_what_was_said_before() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        let mut prompt = whole.prompt(r#"!!{"text": "second"}"#);
        prompt.agent_session = Some("ses_of_a_sandbox_that_is_gone".to_owned());
        prompt.context = Some("earlier somebody spoke of pearls".to_owned());
        let end = whole.send(prompt).await;
        assert!(is_complete(&end), "{end:?}");
        let asked = whole.model.shown().pop().unwrap().to_string();
        assert!(asked.contains("spoke of pearls"), "{asked}");
        // One that remembers is not told again.
        let mut prompt = whole.prompt(r#"!!{"text": "third"}"#);
        prompt.context = Some("and of oysters".to_owned());
        let end = whole.send(prompt).await;
        assert!(is_complete(&end), "{end:?}");
        let asked = whole.model.shown().pop().unwrap().to_string();
        assert!(!asked.contains("oysters"), "{asked}");
    });
}

#[test]
fn an_agent_that_is_to_ask_asks_the_hub() {
    with_agent(async |mut whole| {
        let mut boot: Boot = whole.boot();
        boot.agent.permissions = Permissions {
            default: Policy::Allow,
            by_action: [("bash".to_owned(), Policy::Ask)].into(),
        };
        whole.start(boot);
        whole.is_ready().await;
        let prompt = whole.prompt(&bash("touch allowed"));
        let decide = async {
            let asked = whole
                .heard("the question", |frame| {
                    matches!(frame, FromRunner::Permission(_))
                })
                .await;
            let FromRunner::Permission(permission) = asked else {
                unreachable!("it was waited for");
            };
            assert!(!fs::exists("/home/user/workspace/allowed").unwrap());
            whole.hub.say(FromHub::Permission {
                id: permission.id,
                allow: true,
            });
        };
        let (end, ()) = tokio::join!(whole.send(prompt), decide);
        assert!(is_complete(&end), "{end:?}");
        assert!(fs::exists("/home/user/workspace/allowed").unwrap());
    });
}

/// Whether a process of this test runs whose command line has this in it. One that has ended has
/// none.
fn runs(word: &str) -> bool {
    let ours = fs::read_link("/proc/thread-self/ns/net").unwrap();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .map(|process| process.path())
        .filter(|process| fs::read_link(process.join("ns/net")).is_ok_and(|net| net == ours))
        .filter_map(|process| fs::read(process.join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(word))
}

#[test]
fn a_stop_ends_the_agent_and_what_it_started_before_it_is_said() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        let end = whole
            .ask(&bash("setsid sleep 86417 > /dev/null 2>&1 &"))
            .await;
        assert!(is_complete(&end), "{end:?}");
        assert!(runs("opencode") && runs("86417"));
        whole.hub.say(FromHub::Stop { reason: None });
        whole
            .heard("the end", |frame| matches!(frame, FromRunner::Stopped))
            .await;
        assert!(!runs("opencode"));
        assert!(!runs("86417"));
    });
}

#[test]
fn what_an_answer_took_is_told_by_answer() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        let end = whole.ask(&bash("true")).await;
        assert!(is_complete(&end), "{end:?}");
        let usage = whole
            .heard("the usage", |frame| {
                matches!(frame, FromRunner::Usage { .. })
            })
            .await;
        let FromRunner::Usage { prompt_id, entries } = usage else {
            unreachable!("it was waited for");
        };
        assert_eq!((prompt_id.as_str(), entries.len()), ("p1", 2));
        assert!(
            entries
                .iter()
                .all(|entry| entry.model == "scripted/main" && entry.usage.output_tokens > 0)
        );
    });
}

#[test]
fn a_prompt_whose_upload_does_not_come_holds_its_channel_and_can_be_canceled() {
    with_agent(async |mut whole| {
        let boot = whole.boot();
        whole.start(boot);
        whole.is_ready().await;
        whole
            .hub
            .answer_with(Box::new(|asked| match asked.kind.as_str() {
                "read_upload" => None,
                _ => Some(Ok(serde_json::Value::Null)),
            }));
        let mut waits = whole.prompt(r#"!!{"text": "seen"}"#);
        let upload = Source::Upload("upl_1".to_owned());
        waits.attachments = vec![attachment("x.txt", "text/plain", upload)];
        let other = whole.prompt(r#"!!{"text": "other"}"#);
        let meddle = async {
            let asks = |frame: &FromRunner| matches!(frame, FromRunner::Request(asked) if asked.kind == "read_upload");
            whole.heard("the request", asks).await;
            let second = other.id.clone();
            whole.hub.say(FromHub::Prompt(Box::new(other)));
            whole
                .heard("busy", |frame| {
                    matches!(frame, FromRunner::Busy { prompt_id, .. } if *prompt_id == second)
                })
                .await;
            whole.hub.say(FromHub::Cancel { channel: None });
        };
        let (end, ()) = tokio::join!(whole.send(waits), meddle);
        assert!(matches!(end, FromRunner::Canceled { .. }), "{end:?}");
        let end = whole.ask(r#"!!{"text": "after"}"#).await;
        assert!(is_complete(&end), "{end:?}");
    });
}

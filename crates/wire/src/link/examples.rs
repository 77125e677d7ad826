//! One frame of each type, as briefly as it may be said. What is written here stays readable.

use serde_json::Value;

use super::{FromHub, FromRunner, HubFrame, RunnerFrame, read_hub, read_runner};

const FROM_HUB: &[&str] = &[
    r#"{"type":"hello","term":1,"session":"ses_1","generation":1,"boot":"b","protocol":1}"#,
    r#"{"type":"init","term":1}"#,
    r#"{"type":"init","term":1,"kind":"setup","repos":[{"url":"https://example.com/a.git","branch":"main","ref":"v1","bundle":"upl_1","path":"a"}],"git_identity":{"name":"Ada","email":"ada@example.com"},"freshness":{"pull_on_restore":true,"cadence_s":60,"restored":true},"content":{"personas":[{"name":"p","content":"c","order":1}],"skills":[{"name":"s","files":[{"path":"SKILL.md","content":"c"}]}],"instructions":[{"name":"i","content":"c"}]},"agent":{"providers":[{"id":"anthropic","name":"Anthropic","models":[{"id":"m"}]}],"custom_providers":[{"id":"own","name":"Own","base_url":"http://127.0.0.1:1","models":[]}],"tools":{"bash":false},"permissions":{"default":"ask","by_action":{"edit":"allow"}},"mcp":[{"name":"x","transport":{"command":{"argv":["x"]}}},{"name":"y","transport":{"http":{"url":"http://127.0.0.1:2"}}}],"transcriber":{"base_url":"http://127.0.0.1:3/v1","model":"whisper"}},"services":[{"name":"web","command":"npm start","cwd":"a"}],"env_files":[{"path":".env","keys":[{"key":"TOKEN","required":true}]}],"has_deps":true,"agent_sessions":{"web:default":"s"}}"#,
    r#"{"type":"ack","term":1,"seq":5}"#,
    r#"{"type":"ack","term":1,"seq":5,"boot":"earlier"}"#,
    r#"{"type":"pong","term":1}"#,
    r#"{"type":"prompt","term":1,"id":"p","content":"do it"}"#,
    r#"{"type":"prompt","term":1,"id":"p","content":"do it","chain":["a/b"],"attachments":[{"name":"x.png","media_type":"image/png","source":{"upload":"upl_1"}},{"name":"y.txt","media_type":"text/plain","source":{"data":"eA=="}}],"channel":"slack:C1","reply_channel":"web:default","agent_session":"s","author":{"id":"usr_1","email":"ada@example.com","name":"Ada","git_name":"Ada L","git_email":"ada@example.org"},"context":"before"}"#,
    r#"{"type":"prompt_state","term":1,"prompt_id":"p"}"#,
    r#"{"type":"cancel","term":1}"#,
    r#"{"type":"cancel","term":1,"channel":"web:default"}"#,
    r#"{"type":"answer","term":1,"question_id":"q","answer":"words"}"#,
    r#"{"type":"answer","term":1,"question_id":"q","item":1,"answer":["a","b"]}"#,
    r#"{"type":"answer","term":1,"question_id":"q","answer":true}"#,
    r#"{"type":"answer","term":1,"question_id":"q"}"#,
    r#"{"type":"permission","term":1,"id":"x","allow":true}"#,
    r#"{"type":"revert","term":1,"message_id":"m"}"#,
    r#"{"type":"diff","term":1,"request_id":"r"}"#,
    r#"{"type":"review","term":1,"request_id":"r"}"#,
    r#"{"type":"command","term":1,"request_id":"r","command":"compact","args":"x"}"#,
    r#"{"type":"new_session","term":1,"request_id":"r","channel":"web:default"}"#,
    r#"{"type":"agent_config","term":1,"orchestrator":true}"#,
    r#"{"type":"content","term":1,"skills":[]}"#,
    r#"{"type":"git_access","term":1,"repos":[{"url":"https://example.com/a.git","verbs":["fetch","push"]}]}"#,
    r#"{"type":"tunnel_delete","term":1,"name":"t","actor":{"id":"usr_1"}}"#,
    r#"{"type":"workflow_execute","term":1,"execution_id":"e","payload":{"kind":"run"},"chain":["a/b"]}"#,
    r#"{"type":"stop","term":1}"#,
    r#"{"type":"result","term":1,"id":"r","ok":{"child_session_id":"ses_2"}}"#,
    r#"{"type":"result","term":1,"id":"r","error":{"code":"refused","message":"no"}}"#,
    r#"{"type":"pending","term":1,"id":"r","wait_ms":300000}"#,
    r#"{"type":"error","term":1,"code":"unknown_turn","message":"no such turn"}"#,
    r#"{"type":"close","term":1,"code":1000,"reason":"replaced"}"#,
];

const FROM_RUNNER: &[&str] = &[
    r#"{"type":"hello","session":"ses_1","generation":1,"boot":"b","protocol":1,"term":0}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"part.delta","message_id":"m","part_id":"p","offset":0,"text":"a"}"#,
    r#"{"type":"part","message_id":"m","part_id":"p","open":true,"content":{"kind":"text","text":"a"}}"#,
    r#"{"type":"close","code":1000,"reason":"runner shutting down"}"#,
    r#"{"type":"message","seq":1,"message_id":"m","channel":"web:default"}"#,
    r#"{"type":"message","seq":1,"from_boot":"earlier","message_id":"m","channel":"web:default","prompt_id":"p","agent_session":"s"}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"text","text":"a"}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"reasoning","text":"a"}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"tool","call_id":"c","name":"bash","status":"error","args":{"command":"false"},"error":"it failed","exit_code":1}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"error","message":"a"}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"finish","reason":"end_turn"}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"image","media_type":"image/png","source":{"file":"/tmp/x.png"}}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"audio","media_type":"audio/ogg","source":{"upload":"u"},"transcript":"a"}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"screenshot","media_type":"image/png","source":{"data":"eA=="},"description":"a"}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"break"}}"#,
    r#"{"type":"part","seq":1,"message_id":"m","part_id":"p","content":{"kind":"forwarded","session_id":"ses_2","role":"assistant","created_at":"2026-01-01T00:00:00Z","text":"a"}}"#,
    r#"{"type":"part.removed","seq":1,"message_id":"m","part_id":"p"}"#,
    r#"{"type":"message.removed","seq":1,"message_id":"m"}"#,
    r#"{"type":"message.done","seq":1,"message_id":"m","reason":"canceled"}"#,
    r#"{"type":"message.done","seq":1,"message_id":"m","reason":"end_turn","text":"a","usage":{"input_tokens":1,"output_tokens":2}}"#,
    r#"{"type":"agent_status","seq":1,"status":"tool_calling","detail":"bash","prompt_id":"p","channel":"web:default"}"#,
    r#"{"type":"accepted","seq":1,"prompt_id":"p","channel":"web:default"}"#,
    r#"{"type":"busy","seq":1,"prompt_id":"p","channel":"web:default"}"#,
    r#"{"type":"prompt_state","prompt_id":"p","state":"never_seen"}"#,
    r#"{"type":"complete","seq":1,"prompt_id":"p","channel":"web:default"}"#,
    r#"{"type":"canceled","seq":1,"prompt_id":"p","channel":"web:default"}"#,
    r#"{"type":"error","seq":1,"code":"model","message":"no model answered","prompt_id":"p"}"#,
    r#"{"type":"question","seq":1,"question_id":"q","channel":"web:default","items":[{"text":"which?","options":[{"label":"a"}],"choose":"several"}]}"#,
    r#"{"type":"question_closed","seq":1,"question_id":"q","outcome":{"kind":"answered","answers":[["a"]]}}"#,
    r#"{"type":"permission","seq":1,"id":"x","channel":"web:default","tool":"bash","targets":["rm -r x"]}"#,
    r#"{"type":"permission_closed","seq":1,"id":"x","outcome":{"kind":"allowed"},"by":"policy"}"#,
    r#"{"type":"image","seq":1,"image":{"media_type":"image/png","source":{"upload":"u"}},"prompt_id":"p"}"#,
    r#"{"type":"audio_transcript","seq":1,"prompt_id":"p","text":"a"}"#,
    r#"{"type":"models","seq":1,"providers":[{"id":"a","name":"A","models":[{"id":"b","name":"B"}]}]}"#,
    r#"{"type":"model_switched","seq":1,"prompt_id":"p","channel":"web:default","from":"a/b","to":"c/d","reason":"rate limit"}"#,
    r#"{"type":"channel_session_created","seq":1,"channel":"web:default","agent_session":"s"}"#,
    r#"{"type":"break","seq":1,"channel":"web:default","request_id":"r"}"#,
    r#"{"type":"usage","seq":1,"prompt_id":"p","entries":[{"agent_message":"x","model":"a/b","usage":{"input_tokens":1,"output_tokens":2}}]}"#,
    r#"{"type":"tunnels","seq":1,"tunnels":[{"name":"web","port":3000}]}"#,
    r#"{"type":"services","seq":1,"services":[{"name":"web","command":"npm start","standing":"running"}]}"#,
    r#"{"type":"ports","seq":1,"ports":[{"port":3000,"service":"web","exposed":true}]}"#,
    r#"{"type":"activity","seq":1,"uses":[{"kind":"service","name":"web"},{"kind":"request"},{"kind":"terminal"}]}"#,
    r#"{"type":"auto_start_output","seq":1,"service":"web","output":"up","exit_code":0}"#,
    r#"{"type":"git_state","seq":1,"branch":"main","base":"main","commit_count":2}"#,
    r#"{"type":"files_changed","seq":1,"files":[{"path":"a","status":"modified","added":1,"removed":2}]}"#,
    r#"{"type":"pull_request","seq":1,"number":1,"title":"t","url":"https://example.com/1","status":"open"}"#,
    r#"{"type":"child_session","seq":1,"session_id":"ses_2","title":"t"}"#,
    r#"{"type":"title","seq":1,"title":"t"}"#,
    r#"{"type":"diff_result","seq":1,"request_id":"r","files":[{"path":"a","status":"added","patch":"+a"}]}"#,
    r#"{"type":"review_result","seq":1,"request_id":"r","review":{"summary":"s","files":[{"path":"a","findings":[{"severity":"critical","title":"t"}]}],"counts":{"critical":1,"warning":0,"suggestion":0,"nitpick":0}}}"#,
    r#"{"type":"command_result","seq":1,"request_id":"r","command":"zzz","error":"no such command"}"#,
    r#"{"type":"reverted","seq":1,"request_id":"r","message_ids":["m"]}"#,
    r#"{"type":"workflow_chat_message","seq":1,"role":"assistant","content":"a","channel":"automation:e"}"#,
    r#"{"type":"workflow_execution_result","seq":1,"execution_id":"e","status":"needs_approval","approval":{"step":"s"}}"#,
    r#"{"type":"agent_config_applied","seq":1,"success":true,"restarted":false}"#,
    r#"{"type":"self_terminate","seq":1}"#,
    r#"{"type":"runner_health","seq":1,"kind":"agent_crash","message":"it died","count":2,"exit_code":139}"#,
    r#"{"type":"wait_subscription","seq":1,"sessions":["ses_2"],"notify_on":"any","statuses":["paused"]}"#,
    r#"{"type":"phase","seq":1,"name":"clone","state":"done","took_ms":5}"#,
    r#"{"type":"clone_complete","seq":1,"repos":["a"]}"#,
    r#"{"type":"stopped","seq":1}"#,
    r#"{"type":"request","seq":1,"id":"r","kind":"spawn_child","payload":{"task":"t"}}"#,
];

#[test]
fn every_example_of_a_hub_is_read_and_loses_nothing_on_the_way() {
    for example in FROM_HUB {
        let frame =
            read_hub(example.as_bytes()).unwrap_or_else(|error| panic!("{example}: {error:?}"));
        keeps(example, &serde_json::to_value(&frame).unwrap());
        let again: HubFrame =
            serde_json::from_value(serde_json::to_value(&frame).unwrap()).unwrap();
        assert_eq!(again, frame);
    }
}

#[test]
fn every_example_of_a_runner_is_read_and_loses_nothing_on_the_way() {
    for example in FROM_RUNNER {
        let frame =
            read_runner(example.as_bytes()).unwrap_or_else(|error| panic!("{example}: {error:?}"));
        keeps(example, &serde_json::to_value(&frame).unwrap());
        let again: RunnerFrame =
            serde_json::from_value(serde_json::to_value(&frame).unwrap()).unwrap();
        assert_eq!(again, frame);
    }
}

/// What was said is in what is said again; defaults may have come to it.
fn keeps(example: &str, again: &Value) {
    fn is_in(said: &Value, again: &Value) -> bool {
        match (said, again) {
            (Value::Object(said), Value::Object(again)) => said
                .iter()
                .all(|(key, value)| again.get(key).is_some_and(|other| is_in(value, other))),
            (Value::Array(said), Value::Array(again)) => {
                said.len() == again.len() && said.iter().zip(again).all(|(a, b)| is_in(a, b))
            }
            (said, again) => said == again,
        }
    }
    let said: Value = serde_json::from_str(example).unwrap();
    assert!(is_in(&said, again), "{example}\n{again}");
}

#[test]
fn there_is_an_example_of_every_type() {
    let names = |examples: &[&str]| -> Vec<String> {
        let types = examples.iter().map(|example| {
            let frame: Value = serde_json::from_str(example).unwrap();
            frame["type"].as_str().unwrap().to_owned()
        });
        types.collect()
    };
    let (hub, runner) = (names(FROM_HUB), names(FROM_RUNNER));
    // serde lists all the names it knows when it meets one that it does not.
    let known = |error: serde_json::Error| -> Vec<String> {
        let text = error.to_string();
        let (_, list) = text.split_once("expected one of ").unwrap();
        let names = list.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    };
    let zzz = r#"{"type":"zzz"}"#;
    for name in known(serde_json::from_str::<FromHub>(zzz).unwrap_err()) {
        assert!(hub.contains(&name), "no example of the hub's `{name}`");
    }
    for name in known(serde_json::from_str::<FromRunner>(zzz).unwrap_err()) {
        assert!(
            runner.contains(&name),
            "no example of the runner's `{name}`"
        );
    }
}

#[test]
fn what_is_numbered_is_what_is_kept() {
    for example in FROM_RUNNER {
        let frame = read_runner(example.as_bytes()).unwrap();
        // An answer about a prompt is said as a remark, and would be kept if it were said otherwise.
        let is_remark = matches!(frame.body, FromRunner::PromptState { .. });
        assert_eq!(
            frame.seq.is_some(),
            frame.body.is_kept() && !is_remark,
            "{example}"
        );
    }
}

#[test]
fn no_frame_of_a_hub_is_about_a_key() {
    let shape = serde_json::to_string(&schemars::schema_for!(HubFrame)).unwrap();
    for word in ["api_key", "password", "\"token\"", "\"secret\""] {
        assert!(!shape.contains(word), "{word}");
    }
}

#[test]
fn a_prompt_with_a_large_image_says_that_it_must_go_by_reference() {
    let frame = read_hub(FROM_HUB[6].as_bytes()).unwrap();
    let FromHub::Prompt(mut prompt) = frame.body else {
        panic!("the example moved");
    };
    assert!(!prompt.is_too_long_inline());
    prompt.attachments.push(super::Attachment {
        name: "x.png".to_owned(),
        media_type: "image/png".to_owned(),
        source: super::Source::Data("x".repeat(super::MAX_INLINE)),
    });
    assert!(prompt.is_too_long_inline());
}

//! The demo model, driven as an agent would.

use std::process::Command;

use camino::Utf8Path;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::world::{World, text};

fn tools() -> Value {
    let tool = |name: &str, properties: Value| {
        json!({ "type": "function", "function": { "name": name,
            "parameters": { "type": "object", "properties": properties } } })
    };
    json!([
        tool("bash", json!({ "command": {}, "description": {} })),
        tool("write", json!({ "filePath": {}, "content": {} })),
    ])
}

/// What came of a stream: the text, and a tool's name and arguments.
fn read(stream: &str) -> (String, Option<Value>) {
    let mut said = String::new();
    let mut call = None;
    assert!(stream.ends_with("data: [DONE]\n\n"));
    for line in stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: {"))
    {
        let chunk: Value = serde_json::from_str(&format!("{{{line}")).unwrap();
        let delta = &chunk["choices"][0]["delta"];
        said.push_str(delta["content"].as_str().unwrap_or_default());
        if let Some(first) = delta["tool_calls"].get(0) {
            call = Some(first.clone());
        }
    }
    (said, call)
}

/// Does what a tool is to do, in a directory of the test.
fn obey(call: &Value, directory: &Utf8Path) -> String {
    let function = &call["function"];
    let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    match function["name"].as_str().unwrap() {
        "write" => {
            let path = directory.join(arguments["filePath"].as_str().unwrap());
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, arguments["content"].as_str().unwrap()).unwrap();
            "Wrote file successfully.".to_owned()
        }
        "bash" => {
            let command = arguments["command"].as_str().unwrap();
            let run = Command::new("bash")
                .args(["-c", command])
                .current_dir(directory)
                .output()
                .unwrap();
            String::from_utf8(run.stdout).unwrap()
        }
        other => panic!("no such tool: {other}"),
    }
}

/// A whole turn; the tools that were called, and the last words.
async fn play(prompt: &str, directory: &Utf8Path) -> (Vec<String>, String) {
    let mut world = World::new("http://127.0.0.1:1/v1");
    let mut messages = vec![
        json!({ "role": "system", "content": "You are an agent." }),
        json!({ "role": "user", "content": prompt }),
    ];
    let mut called = Vec::new();
    for _ in 0..8 {
        let request = json!({ "model": "demo", "stream": true, "messages": messages,
            "tools": tools(), "stream_options": { "include_usage": true } });
        let answer = world.post("/demo/v1/chat/completions", &request).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let (said, call) = read(&text(answer).await);
        let Some(call) = call else {
            let used = world.book.used.lock().unwrap();
            assert_eq!(used.len(), called.len() + 1);
            assert!(used.iter().all(|(_, used)| used.is_complete));
            assert!(used.iter().all(|(_, used)| used.cost_micros == Some(0)));
            assert!(used.iter().all(|(_, used)| used.usage.output_tokens > 0));
            return (called, said);
        };
        called.push(call["function"]["name"].as_str().unwrap().to_owned());
        messages.push(json!({ "role": "assistant", "content": said, "tool_calls": [call] }));
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"],
            "content": obey(&call, directory) }));
    }
    panic!("it does not end: {called:?}");
}

#[tokio::test]
async fn it_looks_around_writes_a_program_runs_it_and_says_what_it_is() {
    let directory = camino_tempfile::tempdir().unwrap();
    let prompt = "make it \"nice\"; '; touch hurt; $(touch hurt) `touch hurt`";
    let (called, said) = play(prompt, directory.path()).await;
    assert_eq!(called, ["bash", "write", "bash"]);
    assert!(said.contains("not a language model"), "{said}");
    assert!(said.contains("You said: make it nice"), "{said}");
    assert!(!directory.path().join("hurt").exists());
    assert!(directory.path().join("nacre-demo.sh").exists());
}

#[tokio::test]
async fn it_writes_and_runs_what_it_is_told_to() {
    let directory = camino_tempfile::tempdir().unwrap();
    let (called, said) = play("write notes/it.txt with Grüße aus 'here'", directory.path()).await;
    assert_eq!(called, ["write", "bash"]);
    assert!(said.contains("Grüße aus 'here'"), "{said}");
    let written = fs_err::read_to_string(directory.path().join("notes/it.txt")).unwrap();
    assert_eq!(written, "Grüße aus 'here'\n");
    let (called, said) = play("run echo $((6 * 7))", directory.path()).await;
    assert_eq!(called, ["bash"]);
    assert!(said.contains("42"), "{said}");
}

#[tokio::test]
async fn it_talks_for_a_while_when_asked_to_be_slow() {
    let directory = camino_tempfile::tempdir().unwrap();
    let (called, said) = play("slow 20", directory.path()).await;
    assert!(called.is_empty());
    assert!(
        said.contains("word 20,") && !said.contains("word 21,"),
        "{said}"
    );
}

#[tokio::test]
async fn it_gives_titles_without_a_stream_and_with_one() {
    let mut world = World::new("http://127.0.0.1:1/v1");
    let mut request = json!({ "model": "demo", "messages": [
        { "role": "system", "content": "You are a title generator. You output ONLY a thread title." },
        { "role": "user", "content": "Generate a title for this conversation:\n" },
        { "role": "user", "content": "add a login form to the front page" },
    ] });
    let answer = world.post("/demo/v1/chat/completions", &request).await;
    let body: Value = serde_json::from_str(&text(answer).await).unwrap();
    let title = "Demo: add a login form to the";
    assert_eq!(body["choices"][0]["message"]["content"], title);
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    request["stream"] = json!(true);
    let answer = world.post("/demo/v1/chat/completions", &request).await;
    assert_eq!(read(&text(answer).await), (title.to_owned(), None));
}

#[tokio::test]
async fn it_needs_no_key_and_says_what_it_does_not_know() {
    let mut world = World::new("http://127.0.0.1:1/v1");
    let answer = world
        .post("/demo/v1/responses", &json!({ "model": "demo" }))
        .await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert!(text(answer).await.contains("chat/completions"));
    let names: Vec<&str> = world
        .models
        .upstreams()
        .map(|one| one.id.as_str())
        .collect();
    assert_eq!(names, ["anthropic", "openai", "demo"]);
}

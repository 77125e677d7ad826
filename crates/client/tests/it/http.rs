use axum::response::Response;
use bytes::Bytes;
use nacre_client::ClientError;
use serde_json::{Value, json};
use wire::v1::{ExecRequest, NewPrompt, NewSession};

use crate::server::{Answers, client};
use crate::world::session;

fn a_session() -> Value {
    session("t", &json!("running"))
}

fn problem(status: u16, code: &str) -> Value {
    json!({"type": "about:blank", "title": "No", "status": status, "detail": "because", "code": code})
}

#[tokio::test]
async fn what_only_looks_is_tried_again() {
    let answers = Answers::default()
        .then_json(503, &problem(503, "starting"))
        .then(500, "oops")
        .then_json(200, &a_session());
    let server = answers.run().await;
    let session = server.client().session("ses_1").await.unwrap();
    assert_eq!(session.id, "ses_1");
    let lines: Vec<String> = answers
        .asked()
        .into_iter()
        .map(|asked| asked.line)
        .collect();
    assert_eq!(lines, ["GET /v1/sessions/ses_1"; 3]);
}

#[tokio::test]
async fn a_session_is_made_once_however_often_it_is_asked_for() {
    let answers = Answers::default()
        .then(502, "")
        .then_json(201, &a_session())
        .then_json(201, &a_session());
    let server = answers.run().await;
    let client = server.client();
    client.create_session(&NewSession::default()).await.unwrap();
    client.create_session(&NewSession::default()).await.unwrap();
    let keys: Vec<_> = answers.asked().into_iter().map(|asked| asked.key).collect();
    assert!(keys[0].is_some());
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2]);
}

#[tokio::test]
async fn a_prompt_goes_under_one_name() {
    let prompt = json!({"id": "x", "status": "queued", "channel": "c", "mode": "followup",
        "content": "go", "created_at": "2026-01-01T00:00:00Z"});
    let answers = Answers::default().then(504, "").then_json(202, &prompt);
    let server = answers.run().await;
    let prompt = NewPrompt {
        content: "go".to_owned(),
        ..NewPrompt::default()
    };
    server.client().send_prompt("ses_1", prompt).await.unwrap();
    let asked = answers.asked();
    assert_eq!(asked[0].body, asked[1].body);
    let body: Value = serde_json::from_slice(&asked[0].body).unwrap();
    assert!(body["id"].as_str().unwrap().starts_with("prm_"));
}

#[tokio::test]
async fn a_command_is_not_run_twice() {
    let answers = Answers::default().then(502, "");
    let server = answers.run().await;
    let request = ExecRequest {
        argv: vec!["make".to_owned()],
        ..ExecRequest::default()
    };
    let error = server.client().exec("ses_1", &request).await.unwrap_err();
    assert!(error.can_retry());
    assert_eq!(answers.asked().len(), 1);
}

#[tokio::test]
async fn a_refusal_says_what_the_server_said() {
    let answers = Answers::default().then_json(409, &problem(409, "stopped"));
    let server = answers.run().await;
    let error = server.client().resume("ses_1").await.unwrap_err();
    assert_eq!((error.code(), error.can_retry()), (Some("stopped"), false));
    assert_eq!(error.to_string(), "because");
    assert_eq!(answers.asked().len(), 1);
}

#[tokio::test]
async fn a_token_does_not_follow_a_redirect() {
    let elsewhere = Answers::default();
    let other = elsewhere.run().await;
    let redirect = Response::builder()
        .status(307)
        .header("location", format!("http://{}/v1/me", other.address))
        .body(String::new().into());
    let answers = Answers::default().then_answer(redirect.unwrap());
    let server = answers.run().await;
    let error = server.client().me().await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
    assert!(elsewhere.asked().is_empty());
    let token = answers.asked()[0].token.clone();
    assert_eq!(token.as_deref(), Some("Bearer nac_test"));
}

#[tokio::test]
async fn somebody_else_at_the_address_is_told_apart() {
    let answers = Answers::default().then(200, "<html>hello</html>");
    let server = answers.run().await;
    let error = server.client().models().await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
}

#[tokio::test]
async fn nobody_at_the_address_says_what_to_start() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client(&format!("http://{address}")).me().await.unwrap_err();
    assert!(error.can_retry());
    assert!(error.to_string().contains("nacre up"), "{error}");
}

#[tokio::test]
async fn a_list_is_read_to_its_end() {
    let page = |next: Option<&str>| json!({"items": [a_session()], "next_cursor": next});
    let answers = Answers::default()
        .then_json(200, &page(Some("a b")))
        .then_json(200, &page(None));
    let server = answers.run().await;
    let all = server.client().all_sessions(None).await.unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(answers.asked()[1].line, "GET /v1/sessions?cursor=a+b");
}

#[tokio::test]
async fn files_go_both_ways() {
    let answers = Answers::default()
        .then(204, "")
        .then(200, "héllo")
        .then(200, "long");
    let server = answers.run().await;
    let client = server.client();
    let content = Bytes::from_static(b"\0\xff");
    client.write_file("s", "/w/ä &.bin", content).await.unwrap();
    let read = client.read_file("s", "a", 100).await.unwrap();
    assert_eq!(read, "héllo".as_bytes());
    let error = client.read_file("s", "a", 3).await.unwrap_err();
    assert!(matches!(error, ClientError::TooLong { limit: 3 }));
    let asked = answers.asked();
    assert_eq!(
        asked[0].line,
        "PUT /v1/sessions/s/files?path=%2Fw%2F%C3%A4+%26.bin"
    );
    assert_eq!(&asked[0].body[..], b"\0\xff");
}

#[tokio::test]
async fn a_newer_server_is_understood_as_far_as_it_goes() {
    let mut newer = a_session();
    for word in ["status", "client_status", "type"] {
        newer[word] = json!("dreaming");
    }
    newer["mood"] = json!({ "colour": "blue" });
    let server = Answers::default().then_json(200, &newer).run().await;
    let session = server.client().session("ses_1").await.unwrap();
    assert_eq!(session.status, wire::v1::Status::Unknown);
    assert_eq!(session.client_status, wire::v1::ClientStatus::Unknown);
    assert_eq!(session.title, "t");
}

#[tokio::test]
async fn tokens_are_listed_to_the_last() {
    let token = |id: &str| json!({ "id": id, "name": "t", "service": false, "created_at": "x" });
    let answers = Answers::default()
        .then_json(
            200,
            &json!({ "items": [token("tok_1")], "next_cursor": "tok_1" }),
        )
        .then_json(200, &json!({ "items": [token("tok_2")] }));
    let server = answers.run().await;
    let tokens = server.client().all_tokens().await.unwrap();
    let ids: Vec<&str> = tokens.iter().map(|token| &*token.id).collect();
    assert_eq!(ids, ["tok_1", "tok_2"]);
    let lines: Vec<String> = answers.asked().into_iter().map(|one| one.line).collect();
    assert_eq!(lines, ["GET /v1/tokens", "GET /v1/tokens?cursor=tok_1"]);
}

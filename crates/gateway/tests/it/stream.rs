//! The event stream says what the socket says.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::Client;
use crate::world::{World, watched};

/// Events of a body, until one is the end.
async fn read(
    mut body: nacre_gateway::Body,
    is_end: impl Fn(&Value) -> bool,
) -> Vec<(Option<u64>, Value)> {
    let (mut text, mut events) = (String::new(), Vec::new());
    loop {
        let frame = timeout(Duration::from_secs(20), body.frame()).await;
        let frame = frame.unwrap().unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let mut id = None;
            let mut data = String::new();
            for line in event.lines() {
                match line.split_once(": ") {
                    Some(("id", value)) => id = Some(value.parse().unwrap()),
                    Some(("data", value)) => data.push_str(value),
                    _ => {}
                }
            }
            let rest = rest.to_owned();
            if !data.is_empty() {
                let value: Value = serde_json::from_str(&data).unwrap();
                let is_last = is_end(&value);
                events.push((id, value));
                if is_last {
                    return events;
                }
            }
            text = rest;
        }
    }
}

fn is_finished(frame: &Value) -> bool {
    frame["type"] == "prompt" && frame["status"] == "finished"
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_stream_equals_the_socket() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, Some(0)).await;
    let response = world
        .gateway
        .events(&HeaderMap::new(), watched(session, Some(0)))
        .await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    client
        .say(json!({ "type": "prompt", "id": "p", "content": "say a b c d e f g h i j" }))
        .await;
    client.hear_until(is_finished).await;
    let events = read(response.into_body(), is_finished).await;
    for (id, frame) in &events {
        assert_eq!(*id, frame["seq"].as_u64());
    }
    let numbered = |frames: Vec<Value>| -> Vec<Value> {
        let frames = frames.into_iter();
        frames.filter(|frame| frame.get("seq").is_some()).collect()
    };
    let streamed = numbered(events.into_iter().map(|(_, frame)| frame).collect());
    assert_eq!(streamed, numbered(client.frames));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_comes_again_goes_on_where_it_was() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client
        .say(json!({ "type": "prompt", "id": "p", "content": "say a" }))
        .await;
    client.hear_until(is_finished).await;
    let mut headers = HeaderMap::new();
    headers.insert("last-event-id", "2".parse().unwrap());
    let response = world.gateway.events(&headers, watched(session, None)).await;
    let events = read(response.into_body(), is_finished).await;
    assert_eq!(events[0].0, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_are_connected_at_a_time() {
    let world = World::with(nacre_gateway::Settings {
        sockets: 1,
        ..nacre_gateway::Settings::usual()
    })
    .await;
    let session = world.running().await.session();
    let nothing = HeaderMap::new();
    let connect = || world.gateway.events(&nothing, watched(session, None));
    let first = connect().await;
    assert_eq!(first.status(), 200);
    assert_eq!(connect().await.status(), 503);
    drop(first);
    assert_eq!(connect().await.status(), 200);
}

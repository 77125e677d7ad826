//! The same through a server: previews at names of their own, for whom it lets in.

use serde_json::{Value, json};
use wire::v1::NewSession;

use super::chromium::{Chromium, Page};
use super::{APPLICATION, says_of_text};
use crate::front::{Front, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_of_the_server_replaces_what_changed_and_wakes_who_sleeps() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let Some(front) = Front::up().await else {
        return;
    };
    let client = front.client();
    let session = client
        .create_session(&NewSession::default())
        .await
        .unwrap()
        .id;
    client.resume(&session).await.unwrap();
    run(&client, &session, APPLICATION).await;
    let answers = "until curl -sf -o /dev/null http://localhost:5173/; do sleep 0.1; done";
    run(&client, &session, answers).await;
    let open = || async {
        let path = ["v1", "sessions", &session, "open"];
        let open: Value = client
            .post_json(&path, &json!({ "target": "5173" }))
            .await
            .unwrap();
        open["url"].as_str().unwrap().to_owned()
    };

    let page = chromium.page().await;
    let link = open().await;
    assert_eq!(page.open(&link).await, 200);
    shows(&page, "one").await;
    let here = page.eval("location.href").await;
    assert!(!here.as_str().unwrap().contains("nacre_code"), "{here}");

    // Gone, if the page were loaded again.
    page.eval("window.mark = 'still here'").await;
    page.until_told("connected").await;
    let change =
        |text: &str| format!("echo 'export const text = \"{text}\";' > ~/workspace/src/text.js");
    run(&client, &session, &change("two")).await;
    shows(&page, "two").await;
    assert_eq!(page.eval("window.mark").await, "still here");

    // A session that sleeps is woken by who looks, and what ran in it runs on.
    client.pause(&session).await.unwrap();
    assert_eq!(page.open(here.as_str().unwrap()).await, 200);
    shows(&page, "two").await;

    // A browser that was not let in sees nothing, nor does one by a link that was used.
    let other = chromium.page().await;
    assert_eq!(
        other.open(&link).await,
        200,
        "it has the cookie of the first"
    );
    let foreign = here.as_str().unwrap().replace("5173-", "5174-");
    assert_eq!(other.open(&foreign).await, 401);
    client.stop(&session).await.unwrap();
}

async fn shows(page: &Page, text: &str) {
    page.until("the application shows its text", &says_of_text(text))
        .await;
}

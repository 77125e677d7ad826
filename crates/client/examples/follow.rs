//! A session from its first prompt to its end:
//! `cargo run -p nacre-client --example follow -- URL TOKEN "What is here?"`.

#![expect(clippy::print_stdout, reason = "it is a program")]

use nacre_client::{Bearer, Client, Transcript, Update};
use wire::v1::{NewPrompt, NewSession, NewSnapshot};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let (Some(url), Some(token)) = (words.next(), words.next()) else {
        return Err("give an address and a token".into());
    };
    let content = words.next().unwrap_or("What is here?".to_owned());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::new(&url, Bearer::new(token))?;
    let new = NewSession {
        title: Some("An example".to_owned()),
        start: true,
        ..NewSession::default()
    };
    let session = client.create_session(&new).await?;
    let answer = ask(&client, &session.id, content).await?;
    println!("{answer}");
    let saved = client
        .create_snapshot(&session.id, &NewSnapshot::default())
        .await?;
    println!("snapshot {}", saved.snapshot);
    let paused = client.pause(&session.id).await?;
    println!("paused {:?}", paused.receipt);
    client.resume(&session.id).await?;
    client.stop(&session.id).await?;
    Ok(())
}

async fn ask(client: &Client, session: &str, content: String) -> Result<String, Failure> {
    let mut follow = client.follow(session, None)?;
    let prompt = NewPrompt {
        content,
        ..NewPrompt::default()
    };
    let id = follow.commands().prompt(prompt).await?;
    let mut transcript = Transcript::default();
    while let Some(update) = follow.next().await {
        match update {
            Update::Frame(frame) => transcript.apply(&frame),
            Update::Offline { why, again_in } => println!("({why}; again in {again_in:?})"),
            Update::Refused(error) => return Err(error.into()),
            Update::Online => {}
        }
        if transcript
            .prompt(&id)
            .is_some_and(|prompt| prompt.status.is_over())
        {
            break;
        }
    }
    let answers = transcript.messages().iter();
    let answers = answers.filter(|message| message.role == "assistant");
    Ok(answers
        .map(nacre_client::HeldMessage::text)
        .collect::<Vec<_>>()
        .join("\n"))
}

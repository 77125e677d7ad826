//! Speech into text, by whoever the hub names: the transcription API of `OpenAI`, over plain HTTP.
//! What needs a key or TLS is reached through the model door.

mod wave;

use std::sync::Mutex;

use agent::prompt::{Attachment, Transcriber};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::{Either, select};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use model::Secret;
use serde::Deserialize;
use tokio::net::TcpStream;
use wire::link;

use crate::hands::Hands;

/// Words of two hours.
const MOST_TEXT: usize = 1 << 20;

#[derive(Debug)]
pub struct Speech {
    asked: Mutex<Option<link::Transcriber>>,
    /// What the model door takes.
    token: Secret,
    /// Who turns sound into what is wanted, and as whom.
    converter: Option<(Hands, String)>,
}

struct Sound {
    name: String,
    media_type: String,
    bytes: Vec<u8>,
}

#[derive(Deserialize)]
struct Heard {
    text: String,
}

impl Speech {
    pub fn new(token: Secret, converter: Option<(Hands, String)>) -> Self {
        Self {
            asked: Mutex::new(None),
            token,
            converter,
        }
    }

    async fn converted(&self, audio: &Attachment, bytes: Vec<u8>) -> Sound {
        if let Some((hands, user)) = &self.converter
            && let Some(wave) = wave::from(hands, user, &bytes).await
        {
            return Sound {
                name: "note.wav".to_owned(),
                media_type: "audio/wav".to_owned(),
                bytes: wave,
            };
        }
        Sound {
            name: audio.name.clone(),
            media_type: audio.media_type.clone(),
            bytes,
        }
    }

    /// Who is asked from now on.
    pub fn ask(&self, transcriber: Option<link::Transcriber>) {
        *self.asked() = transcriber;
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, Option<link::Transcriber>> {
        self.asked.lock().expect("no holder of this lock panics")
    }
}

#[async_trait]
impl Transcriber for Speech {
    fn is_set_up(&self) -> bool {
        self.asked().is_some()
    }

    async fn transcribe(&self, audio: &Attachment) -> Result<String, String> {
        let asked = self.asked().clone();
        let asked = asked.ok_or("nothing is set up that turns speech into text")?;
        let bytes = STANDARD
            .decode(&audio.data)
            .map_err(|_| "it is not base 64".to_owned())?;
        let sound = self.converted(audio, bytes).await;
        let address = format!(
            "{}/audio/transcriptions",
            asked.base_url.trim_end_matches('/')
        );
        let uri: Uri = address
            .parse()
            .map_err(|_| format!("{address} is not an address"))?;
        let authority = match (uri.scheme_str(), uri.authority()) {
            (Some("http"), Some(authority)) => authority.clone(),
            _ => return Err(format!("{address} is not one that plain HTTP reaches")),
        };
        let boundary = boundary();
        let request = Request::post(uri.path())
            .header(HOST, authority.as_str())
            .header(AUTHORIZATION, format!("Bearer {}", self.token.expose()))
            .header(
                CONTENT_TYPE,
                format!("multipart/form-data; boundary={boundary}"),
            )
            .body(Full::new(form(&boundary, &asked.model, &sound)))
            .map_err(|error| error.to_string())?;
        let port = authority.port_u16().unwrap_or(80);
        let stream = TcpStream::connect((authority.host(), port))
            .await
            .map_err(|error| format!("{authority} cannot be reached: {error}"))?;
        let (status, body) = exchange(stream, request).await?;
        if status != 200 {
            let said: String = String::from_utf8_lossy(&body).chars().take(300).collect();
            return Err(format!("it answered {status}: {said}"));
        }
        let heard: Heard = serde_json::from_slice(&body)
            .map_err(|error| format!("its answer cannot be read: {error}"))?;
        Ok(heard.text)
    }
}

async fn exchange(
    stream: TcpStream,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Bytes), String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let exchange = Box::pin(async move {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MOST_TEXT)
            .collect()
            .await;
        Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
    });
    match select(exchange, connection).await {
        Either::Left((answer, _)) => answer,
        // What was read before the connection ended is still on its way.
        Either::Right((_, exchange)) => exchange.await,
    }
}

/// Nothing that somebody recorded can hold it by chance, or on purpose.
fn boundary() -> String {
    let mut bytes = [0; 16];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("nacre-{:032x}", u128::from_le_bytes(bytes))
}

fn form(boundary: &str, model: &str, sound: &Sound) -> Bytes {
    let plain = |text: &str| -> String {
        text.chars()
            .filter(|c| !c.is_control() && *c != '"' && *c != '\\')
            .collect()
    };
    let mut form = Vec::with_capacity(sound.bytes.len() + 1024);
    for (name, value) in [("model", model), ("response_format", "json")] {
        form.extend_from_slice(
            format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{}\r\n",
                plain(value)
            )
            .as_bytes(),
        );
    }
    form.extend_from_slice(
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
             Content-Type: {}\r\n\r\n",
            plain(&sound.name),
            plain(&sound.media_type)
        )
        .as_bytes(),
    );
    form.extend_from_slice(&sound.bytes);
    form.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    form.into()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn note() -> Attachment {
        Attachment {
            name: "note\"\r\n.ogg".to_owned(),
            media_type: "audio/ogg".to_owned(),
            data: STANDARD.encode(b"OggS sound"),
        }
    }

    /// Answers one request, and says what it was asked.
    async fn stand_in(listener: TcpListener, answer: &'static str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"--\r\n") {
            assert!(stream.read_buf(&mut asked).await.unwrap() > 0);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&asked).into_owned()
    }

    async fn heard(answer: &'static str) -> (Result<String, String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let speech = Speech::new(Secret::new("door-token"), None);
        assert!(!speech.is_set_up());
        speech.ask(Some(link::Transcriber {
            base_url: format!("http://{}/v1/", listener.local_addr().unwrap()),
            model: "whisper-1".to_owned(),
        }));
        assert!(speech.is_set_up());
        let audio = note();
        tokio::join!(speech.transcribe(&audio), stand_in(listener, answer))
    }

    #[tokio::test]
    async fn what_was_said_is_asked_for_and_understood() {
        let (heard, asked) =
            heard("HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{\"text\":\"buy milk\"}").await;
        assert_eq!(heard.unwrap(), "buy milk");
        assert!(
            asked.starts_with("POST /v1/audio/transcriptions HTTP/1.1\r\n"),
            "{asked}"
        );
        assert!(
            asked.contains("authorization: Bearer door-token"),
            "{asked}"
        );
        assert!(
            asked.contains("name=\"model\"\r\n\r\nwhisper-1\r\n"),
            "{asked}"
        );
        assert!(asked.contains("filename=\"note.ogg\""), "{asked}");
        assert!(asked.contains("OggS sound"), "{asked}");
    }

    #[tokio::test]
    async fn a_refusal_is_said_as_it_came() {
        let (heard, _) = heard("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy").await;
        assert_eq!(heard.unwrap_err(), "it answered 503: busy");
    }

    #[tokio::test]
    async fn an_address_that_needs_more_than_plain_http_is_refused() {
        let speech = Speech::new(Secret::new("x"), None);
        speech.ask(Some(link::Transcriber {
            base_url: "https://api.example/v1".to_owned(),
            model: "whisper-1".to_owned(),
        }));
        let refused = speech.transcribe(&note()).await.unwrap_err();
        assert!(refused.contains("plain HTTP"), "{refused}");
    }
}

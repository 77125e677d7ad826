use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Bench, Tool, read};
use crate::devtools::Picture;
use crate::link::Who;
use crate::pictures;

pub(super) struct SendImage;

#[async_trait(?Send)]
impl Tool for SendImage {
    fn name(&self) -> &'static str {
        "send_image"
    }

    fn description(&self) -> &'static str {
        "Show the user a picture: a PNG, JPEG, GIF or WebP in the workspace. One from elsewhere has to be saved there first."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (
            json!({
                "source": { "type": "string", "description": "its path, below the workspace" },
                "caption": { "type": "string" },
            }),
            &["source"],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Arguments {
            source: String,
            #[serde(default)]
            caption: Option<String>,
        }
        let asked: Arguments = read(arguments)?;
        let link = bench.link()?;
        let root = format!("{}/", bench.files.root());
        let path = asked.source.strip_prefix(&root).unwrap_or(&asked.source);
        let most = pictures::MOST_BYTES as u64;
        let part = bench.files.read(path, 0, most + 1).await;
        let part = part.map_err(|error| error.to_string())?;
        if part.size > most {
            return Err(format!("it has {} bytes; {most} can be shown", part.size));
        }
        let picture = Picture {
            media_type: String::new(),
            data: STANDARD.encode(part.bytes),
            description: asked.caption,
        };
        pictures::show(link, picture, who).await?;
        Ok("the user sees it".to_owned())
    }
}

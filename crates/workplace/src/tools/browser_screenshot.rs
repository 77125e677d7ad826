use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Bench, Tool, read};
use crate::devtools::Picture;
use crate::link::Who;
use crate::pictures;

pub(super) struct BrowserScreenshot;

#[async_trait(?Send)]
impl Tool for BrowserScreenshot {
    fn name(&self) -> &'static str {
        "browser_screenshot"
    }

    fn description(&self) -> &'static str {
        "Show the user what is on the desktop now, where the browser is. With `filename` it is kept in the workspace too, so that you can look at it yourself."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (
            json!({
                "filename": { "type": "string", "description": "where it is kept, below the workspace, as in `shots/login.png`" },
            }),
            &[],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Arguments {
            #[serde(default)]
            filename: Option<String>,
        }
        let asked: Arguments = read(arguments)?;
        let link = bench.link()?;
        let bytes = bench.display.grab().await?;
        let mut said = "the user sees it".to_owned();
        if let Some(filename) = &asked.filename {
            let root = format!("{}/", bench.files.root());
            let path = filename.strip_prefix(&root).unwrap_or(filename);
            let kept = bench.files.write(path, &bytes, None).await;
            kept.map_err(|error| error.to_string())?;
            said = format!("the user sees it, and it is in {path}");
        }
        let picture = Picture {
            media_type: String::new(),
            data: STANDARD.encode(bytes),
            description: asked.filename,
        };
        pictures::show(link, picture, who).await?;
        Ok(said)
    }
}

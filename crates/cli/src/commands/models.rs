//! Which model answers, and how to have another.

use client::Client;
use wire::v1::ModelList;

use crate::app::App;

/// The scripted one.
const DEMO: &str = "demo/";

/// How to set a key, for whoever has none yet.
pub(crate) const HOW: &str = "\
No model has a key yet, so the demo model answers: a script, and it says so. For a real one:
  nacre secret set --model anthropic     # asks for the key; or ANTHROPIC_API_KEY, where the server runs
  nacre secret set --model openai        # or OPENAI_API_KEY
  any other that speaks OpenAI's Chat API, as in nacre.toml:
    [[models.custom]]
    id = \"local\"
    url = \"http://127.0.0.1:11434/v1\"
    models = [\"qwen3\"]
";

/// The same where there is no demo model either.
pub(crate) const NONE: &str = "\
No model can be used: none has a key, and the demo model is off. Set one:
  nacre secret set --model anthropic     # or openai
  NACRE_MODELS__DEMO=true nacre up       # or have the demo model
";

/// What to say of a server's models; nothing where one has a key.
pub(crate) async fn advice(client: &Client) -> Option<&'static str> {
    let list: ModelList = client.get_json(&["v1", "models"]).await.ok()?;
    let usable: Vec<_> = list.models.iter().filter(|model| model.available).collect();
    if usable.is_empty() {
        return Some(NONE);
    }
    let is_demo = |id: &str| id.starts_with(DEMO);
    usable.iter().all(|model| is_demo(&model.id)).then_some(HOW)
}

/// A line beside a new session that nobody chose a model for.
pub(crate) fn say_what_answers(app: &App, model: Option<&str>) {
    match model {
        Some(model) if model.starts_with(DEMO) => app.output.aside(
            "· the demo model answers, a script; `nacre secret set --model anthropic` (or openai) sets a key",
        ),
        Some(_) => {}
        None => app.output.warning(
            "no model can be used; `nacre secret set --model anthropic` (or openai) sets a key",
        ),
    }
}

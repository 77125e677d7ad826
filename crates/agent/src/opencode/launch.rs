//! OpenCode's configuration, environment and command line.
//!
//! The recipe keeps it quiet and offline: no catalogue of models is fetched, nothing is installed,
//! nothing is updated or shared, and what a cloned repository brings as configuration or plugins
//! is not run.

use std::collections::BTreeMap;

use model::Secret;
use serde_json::{Map, Value, json};

use super::VERSION;
use crate::configuration::{
    Configuration, File, FileContent, Launch, Model, PermissionPolicy, Provider, Questions, Sees,
    Speaks,
};
use crate::prompt::{ModelName, Signature};

/// The name of its only user.
pub(super) const USER: &str = "opencode";

const MODEL_TOKEN: &str = "NACRE_MODEL_TOKEN";
const TOOLS_TOKEN: &str = "NACRE_TOOLS_TOKEN";

/// What it does with tools that only look.
const LOOKING: &[&str] = &["read", "glob", "grep", "list", "todoread", "todowrite"];

pub fn launch(configuration: &Configuration) -> Launch {
    let directory = &configuration.directory;
    let global = format!("{}/.config/opencode", configuration.home);
    let mut files = vec![
        File {
            path: format!("{directory}/opencode.json"),
            content: FileContent::Json(settings(configuration)),
        },
        File {
            path: format!("{directory}/models.json"),
            content: FileContent::Json(json!({})),
        },
    ];
    files.extend(seed(directory));
    files.extend(seed(&global));
    files.push(File {
        path: format!("{directory}/plugins/guard.js"),
        content: FileContent::Text(guard_plugin(directory)),
    });
    files.push(File {
        path: format!("{directory}/plugins/author.js"),
        content: FileContent::Text(author_plugin()),
    });
    if let Some(tools) = &configuration.tools {
        files.push(File {
            path: format!("{directory}/plugins/session.js"),
            content: FileContent::Text(session_plugin(&tools.name)),
        });
    }
    Launch {
        argv: [
            "opencode",
            "serve",
            "--hostname",
            "127.0.0.1",
            "--port",
            &configuration.port.to_string(),
        ]
        .map(str::to_owned)
        .to_vec(),
        cwd: configuration.workspace.clone(),
        env: environment(configuration),
        replaced: vec![directory.clone()],
        files,
    }
}

fn settings(configuration: &Configuration) -> Value {
    let mut settings = json!({
        "$schema": "https://opencode.ai/config.json",
        "enabled_providers": ids(&configuration.providers),
        "provider": providers(&configuration.providers),
        "permission": permission(configuration),
        "instructions": configuration.instructions,
        "skills": { "paths": configuration.skills },
        "share": "disabled",
        "autoupdate": false,
    });
    let names = [
        ("model", &configuration.model),
        ("small_model", &configuration.small_model),
    ];
    for (key, name) in names {
        if let Some(name) = name {
            settings[key] = json!(name);
        }
    }
    if !configuration.without_tools.is_empty() {
        let off = configuration.without_tools.iter();
        settings["tools"] = off.map(|tool| (tool.clone(), json!(false))).collect();
    }
    if let Some(tools) = &configuration.tools {
        settings["mcp"] = json!({ &tools.name: {
            "type": "remote",
            "url": tools.url,
            "oauth": false,
            "timeout": tools.timeout_ms,
            "headers": { "Authorization": format!("Bearer {{env:{TOOLS_TOKEN}}}") },
        }});
    }
    over(configuration.own_settings.clone(), settings)
}

/// Both, the second winning. Lists of instructions are joined: ours are added to what was there.
fn over(under: Value, mut ours: Value) -> Value {
    let (Value::Object(mut all), Some(ours)) = (under, ours.as_object_mut()) else {
        return ours;
    };
    for (key, value) in std::mem::take(ours) {
        let merged = match (all.remove(&key), value) {
            (Some(Value::Array(mut before)), Value::Array(after)) if key == "instructions" => {
                before.extend(after);
                Value::Array(before)
            }
            (Some(before @ Value::Object(_)), after @ Value::Object(_)) => over(before, after),
            (_, after) => after,
        };
        all.insert(key, merged);
    }
    Value::Object(all)
}

fn ids(providers: &[Provider]) -> Vec<&str> {
    providers
        .iter()
        .map(|provider| provider.id.as_str())
        .collect()
}

fn providers(providers: &[Provider]) -> Map<String, Value> {
    let each = providers.iter().map(|provider| {
        let package = match provider.speaks {
            Speaks::AnthropicMessages => "@ai-sdk/anthropic",
            Speaks::OpenAiResponses => "@ai-sdk/openai",
            Speaks::OpenAiChat => "@ai-sdk/openai-compatible",
        };
        let models: Map<String, Value> = provider.models.iter().map(model_entry).collect();
        let value = json!({
            "npm": package,
            "name": provider.name,
            "options": { "baseURL": provider.base_url, "apiKey": format!("{{env:{MODEL_TOKEN}}}") },
            "models": models,
        });
        (provider.id.clone(), value)
    });
    each.collect()
}

fn model_entry(model: &Model) -> (String, Value) {
    let input: &[&str] = match model.sees {
        Sees::Text => &["text"],
        Sees::TextAndImages => &["text", "image"],
        Sees::TextImagesAndPdf => &["text", "image", "pdf"],
    };
    let value = json!({
        "name": model.name,
        "tool_call": true,
        "attachment": model.sees != Sees::Text,
        "limit": { "context": model.context, "output": model.output },
        "modalities": { "input": input, "output": ["text"] },
    });
    (model.id.clone(), value)
}

fn permission(configuration: &Configuration) -> Value {
    let mut rules = Map::new();
    match configuration.permissions {
        PermissionPolicy::Allow => {
            rules.insert("*".to_owned(), json!("allow"));
        }
        PermissionPolicy::Ask => {
            rules.insert("*".to_owned(), json!("ask"));
            for tool in LOOKING {
                rules.insert((*tool).to_owned(), json!("allow"));
            }
        }
    }
    // Nobody there: the tool would wait for ever, so the model is not offered it.
    let question = match configuration.questions {
        Questions::Answered => "allow",
        Questions::Never => "deny",
    };
    rules.insert("question".to_owned(), json!(question));
    Value::Object(rules)
}

fn environment(configuration: &Configuration) -> BTreeMap<String, Secret> {
    let directory = &configuration.directory;
    let plain = [
        ("OPENCODE_CONFIG_DIR", directory.clone()),
        ("OPENCODE_MODELS_PATH", format!("{directory}/models.json")),
        ("OPENCODE_DISABLE_PROJECT_CONFIG", "1".to_owned()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".to_owned()),
        ("OPENCODE_DISABLE_SHARE", "1".to_owned()),
        ("OPENCODE_DISABLE_CLAUDE_CODE", "1".to_owned()),
    ];
    let mut env: BTreeMap<String, Secret> = plain
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Secret::new(value)))
        .collect();
    env.insert(
        "OPENCODE_SERVER_PASSWORD".to_owned(),
        configuration.password.clone(),
    );
    env.insert(MODEL_TOKEN.to_owned(), configuration.model_token.clone());
    if let Some(tools) = &configuration.tools {
        env.insert(TOOLS_TOKEN.to_owned(), tools.token.clone());
    }
    if let Some(bytes) = configuration.memory_cap {
        env.insert(
            "BUN_JSC_forceRAMSize".to_owned(),
            Secret::new(bytes.to_string()),
        );
    }
    env
}

/// With these in a directory of configuration, nothing is installed there. Without them the first
/// prompt waits up to 70 s for a package index that cannot be reached.
fn seed(directory: &str) -> [File; 3] {
    let wants = json!({ "dependencies": { "@opencode-ai/plugin": VERSION } });
    let lock = json!({ "lockfileVersion": 3, "packages": { "": wants } });
    let file = |name: &str, content| File {
        path: format!("{directory}/{name}"),
        content,
    };
    [
        file("package.json", FileContent::Json(wants)),
        file("package-lock.json", FileContent::Json(lock)),
        file("node_modules", FileContent::Directory),
    ]
}

/// Of the two ways in which it reads configuration, one does not know
/// `OPENCODE_DISABLE_PROJECT_CONFIG`: with the first prompt it imports what the repository names as
/// plugins. This is loaded before, and leaves nothing to import but what is ours and its own.
fn guard_plugin(directory: &str) -> String {
    const GUARD: &str = r#"const ours = DIRECTORY.replace(/[^\w/-]/g, "\\$&")
Bun.plugin({
  name: "guard",
  setup(build) {
    build.onLoad({ filter: new RegExp(`^(?!${ours}|/\\$bunfs/)`) }, ({ path }) => ({
      contents: `throw new Error(${JSON.stringify(path + " is not loaded")})`,
      loader: "js",
    }))
  },
})
export const Guard = async () => ({})
"#;
    GUARD.replace("DIRECTORY", &json!(format!("{directory}/")).to_string())
}

/// A call over MCP does not say whose it is. This adds the session to the arguments.
fn session_plugin(server: &str) -> String {
    let prefix = json!(format!("{server}_"));
    format!(
        "export const Session = async () => ({{\n  \
           \"tool.execute.before\": async (input, output) => {{\n    \
             if (input.tool.startsWith({prefix})) output.args.{SESSION_ARGUMENT} = input.sessionID\n  \
           }},\n\
         }})\n"
    )
}

/// Whose prompt a session works on comes with the prompt itself; every command that it runs gets
/// that name for its commits. Git's own configuration is one for all, and channels run side by side.
fn author_plugin() -> String {
    format!(
        r#"const MOST = 1000
const authors = new Map()
const parents = new Map()
const note = (map, key, value) => {{
  map.delete(key)
  map.set(key, value)
  if (map.size > MOST) map.delete(map.keys().next().value)
}}
export const Author = async () => ({{
  event: async ({{ event }}) => {{
    const info = event.type === "session.created" ? event.properties.info : undefined
    if (info && info.parentID) note(parents, info.id, info.parentID)
  }},
  "chat.message": async (input, output) => {{
    const signed = output.parts.find((part) => part.metadata && part.metadata.{AUTHOR})
    if (signed) note(authors, input.sessionID, signed.metadata.{AUTHOR})
    else authors.delete(input.sessionID)
  }},
  "shell.env": async (input, output) => {{
    let session = input.sessionID
    for (let depth = 0; depth < 32 && session && !authors.has(session); depth++) session = parents.get(session)
    const author = authors.get(session)
    if (!author) return
    for (const role of ["AUTHOR", "COMMITTER"]) {{
      output.env["GIT_" + role + "_NAME"] = author.name
      output.env["GIT_" + role + "_EMAIL"] = author.mail
    }}
  }},
}})
"#
    )
}

const AUTHOR: &str = "nacre_author";

/// What the plugin finds in the prompt. It is not told to the model.
pub(super) fn author_metadata(signs: &Signature) -> Value {
    json!({ AUTHOR: { "name": signs.name(), "mail": signs.mail() } })
}

/// The argument in which our tools find the session that calls them.
pub const SESSION_ARGUMENT: &str = "nacre_agent_session";

/// As OpenCode takes a model.
pub(super) fn model_reference(name: &ModelName) -> Value {
    json!({ "providerID": name.provider, "modelID": name.model })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::ToolServer;

    fn configuration() -> Configuration {
        Configuration {
            workspace: "/workspace".to_owned(),
            directory: "/opt/agent".to_owned(),
            home: "/home/user".to_owned(),
            port: 4096,
            password: Secret::new("pass-canary"),
            providers: vec![Provider {
                id: "llm".to_owned(),
                name: "Platform".to_owned(),
                speaks: Speaks::AnthropicMessages,
                base_url: "http://127.0.0.1:8399/v1".to_owned(),
                models: vec![Model {
                    id: "main".to_owned(),
                    name: "Main".to_owned(),
                    context: 200_000,
                    output: 8192,
                    sees: Sees::TextAndImages,
                }],
            }],
            model: Some("llm/main".parse().unwrap()),
            small_model: Some("llm/main".parse().unwrap()),
            model_token: Secret::new("model-canary"),
            tools: Some(ToolServer {
                name: "nacre".to_owned(),
                url: "http://127.0.0.1:9100/mcp".to_owned(),
                token: Secret::new("tools-canary"),
                timeout_ms: 300_000,
            }),
            without_tools: vec!["webfetch".to_owned()],
            instructions: vec!["/workspace/AGENTS.md".to_owned()],
            skills: vec!["/opt/skills".to_owned()],
            permissions: PermissionPolicy::Allow,
            questions: Questions::Never,
            memory_cap: Some(512 << 20),
            own_settings: json!({}),
        }
    }

    fn settings_of(launch: &Launch) -> Value {
        let file = launch
            .files
            .iter()
            .find(|file| file.path == "/opt/agent/opencode.json");
        match &file.unwrap().content {
            FileContent::Json(value) => value.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_settings_are_those_of_the_quiet_recipe() {
        insta::assert_json_snapshot!(settings_of(&launch(&configuration())));
    }

    #[test]
    fn the_environment_keeps_it_offline() {
        let launch = launch(&configuration());
        let lines: Vec<String> = launch
            .env
            .iter()
            .map(|(name, value)| format!("{name}={}", value.expose()))
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn every_directory_of_configuration_is_seeded() {
        let launch = launch(&configuration());
        for directory in ["/opt/agent", "/home/user/.config/opencode"] {
            let path = format!("{directory}/package-lock.json");
            assert!(launch.files.iter().any(|file| file.path == path), "{path}");
        }
    }

    #[test]
    fn no_secret_is_in_a_file_or_on_the_command_line() {
        let launch = launch(&configuration());
        let mut all = launch.argv.join(" ").into_bytes();
        for file in &launch.files {
            all.extend(file.content.bytes());
        }
        assert!(!String::from_utf8(all).unwrap().contains("canary"));
    }

    #[test]
    fn settings_in_another_order_have_the_same_effect() {
        let mut one = configuration();
        one.own_settings = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).unwrap();
        let mut other = configuration();
        other.own_settings = serde_json::from_str(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).unwrap();
        assert!(launch(&one).has_same_effect_as(&launch(&other)));
    }

    #[test]
    fn a_removed_provider_makes_a_difference() {
        let mut other = configuration();
        other.providers.clear();
        assert!(!launch(&configuration()).has_same_effect_as(&launch(&other)));
    }

    #[test]
    fn our_instructions_are_added_to_those_that_were_there() {
        let mut configuration = configuration();
        configuration.own_settings =
            json!({"instructions": ["/opt/base.md"], "autoupdate": true, "theme": "x"});
        let settings = settings_of(&launch(&configuration));
        assert_eq!(
            settings["instructions"],
            json!(["/opt/base.md", "/workspace/AGENTS.md"])
        );
        assert_eq!(
            (&settings["autoupdate"], &settings["theme"]),
            (&json!(false), &json!("x"))
        );
    }

    #[test]
    fn asking_still_lets_it_look() {
        let mut configuration = configuration();
        configuration.permissions = PermissionPolicy::Ask;
        configuration.questions = Questions::Answered;
        let rules = &settings_of(&launch(&configuration))["permission"];
        assert_eq!(
            (&rules["*"], &rules["read"], &rules["question"]),
            (&json!("ask"), &json!("allow"), &json!("allow"))
        );
    }
}

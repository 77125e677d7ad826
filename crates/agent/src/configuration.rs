//! What an agent is set up with, in our words, and what has to be started for it.

use std::collections::BTreeMap;
use std::fmt;

use model::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::prompt::ModelName;

/// Everything an agent's process depends on. Two that are equal need no restart between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Where it works.
    pub workspace: String,
    /// A directory of ours, outside the workspace, whose content is replaced at each start.
    pub directory: String,
    /// The home of the user it runs as.
    pub home: String,
    pub port: u16,
    /// Asked of everybody who talks to its server.
    pub password: Secret,
    pub providers: Vec<Provider>,
    /// For prompts that name none.
    pub model: Option<ModelName>,
    /// For small chores such as titles.
    pub small_model: Option<ModelName>,
    /// What the model door takes from this sandbox. Worthless anywhere else.
    pub model_token: Secret,
    pub tools: Option<ToolServer>,
    /// Tools of the agent's own that are not to be used.
    pub without_tools: Vec<String>,
    /// Files that the agent reads first. Absolute paths.
    pub instructions: Vec<String>,
    /// Folders of skills, each in a folder of its own. Absolute paths.
    pub skills: Vec<String>,
    pub permissions: PermissionPolicy,
    pub questions: Questions,
    /// At most so much memory, where the agent can be told.
    pub memory_cap: Option<u64>,
    /// Settings in the agent's own form. Ours win where both say something.
    pub own_settings: Value,
}

impl Configuration {
    /// Who decides what the agent asks: nobody has to be there when it asks for nothing.
    pub fn decides(&self) -> PermissionPolicy {
        let rules = self.own_settings["permission"].as_object();
        let asks = rules.is_some_and(|rules| rules.values().any(|rule| rule == "ask"));
        if asks {
            PermissionPolicy::Ask
        } else {
            self.permissions
        }
    }
}

/// A place that answers for models: the model door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    pub id: String,
    pub name: String,
    pub speaks: Speaks,
    pub base_url: String,
    pub models: Vec<Model>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaks {
    AnthropicMessages,
    OpenAiResponses,
    OpenAiChat,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    pub id: String,
    pub name: String,
    pub context: u64,
    pub output: u64,
    pub sees: Sees,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sees {
    Text,
    TextAndImages,
    TextImagesAndPdf,
}

/// Our tools, offered over MCP.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolServer {
    pub name: String,
    pub url: String,
    pub token: Secret,
    /// The longest that one call may take.
    pub timeout_ms: u64,
}

/// A courtesy to the person, never a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    Allow,
    Ask,
}

/// Whether anybody is there to answer the agent's questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Questions {
    Answered,
    Never,
}

/// What to write and what to start. Whoever starts it empties `replaced`, writes `files`, and
/// runs `argv` in `cwd` with `env` added to the user's own.
#[derive(Clone, PartialEq)]
pub struct Launch {
    pub argv: Vec<String>,
    pub cwd: String,
    pub env: BTreeMap<String, Secret>,
    pub replaced: Vec<String>,
    pub files: Vec<File>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub content: FileContent,
}

#[derive(Clone, PartialEq, Eq)]
pub enum FileContent {
    Json(Value),
    Text(String),
    /// An empty directory.
    Directory,
}

impl FileContent {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            FileContent::Json(value) => format!("{value:#}\n").into_bytes(),
            FileContent::Text(text) => text.clone().into_bytes(),
            FileContent::Directory => Vec::new(),
        }
    }
}

impl Launch {
    /// Whether a process that was started with the other can stay.
    pub fn has_same_effect_as(&self, other: &Launch) -> bool {
        let by_path = |launch: &Launch| -> BTreeMap<String, FileContent> {
            let files = launch.files.iter();
            files
                .map(|file| (file.path.clone(), file.content.clone()))
                .collect()
        };
        // Objects in JSON are compared as maps, so the order of their keys says nothing.
        self.argv == other.argv
            && self.cwd == other.cwd
            && self.env == other.env
            && by_path(self) == by_path(other)
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("argv", &self.argv)
            .field("env", &self.env.keys())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}

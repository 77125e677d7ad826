//! What the demo model does next.

use serde_json::{Value, json};

use super::conversation::{Conversation, Tool};
use super::wording::{Wish, excerpt, plain, quoted, title};

/// One answer: words, and perhaps a tool to call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) text: String,
    pub(super) call: Option<Call>,
    pub(super) is_slow: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

impl Step {
    fn say(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            call: None,
            is_slow: false,
        }
    }
}

/// By how many tools have answered since the person spoke.
pub(super) fn next(conversation: &Conversation) -> Step {
    if conversation.wants_title {
        return Step::say(title(&conversation.prompt));
    }
    if conversation.tools.is_empty() {
        return Step::say(recall(conversation));
    }
    let wish = Wish::read(&conversation.prompt);
    if let Wish::Slow { words } = wish {
        return slow(words);
    }
    let play = Play::new(conversation, &wish);
    let done = conversation.results.len();
    match play.calls.into_iter().nth(done) {
        Some((text, call)) => Step {
            text,
            call: Some(call),
            is_slow: false,
        },
        None => Step::say(last_words(conversation, play.done)),
    }
}

/// For whoever asks without tools, such as an agent that wants its past made shorter.
fn recall(conversation: &Conversation) -> String {
    let asked: Vec<String> = conversation
        .prompts
        .iter()
        .rev()
        .take(5)
        .map(|prompt| format!("- {}", plain(prompt, 100)))
        .collect();
    format!(
        "This is the demo model, scripted and not a language model. So far it was asked:\n{}",
        asked.join("\n")
    )
}

fn slow(words: usize) -> Step {
    let counted: Vec<String> = (1..=words)
        .map(|number| format!("word {number},"))
        .collect();
    Step {
        text: format!(
            "I am the demo model, and I talk slowly now, so that you can cancel me: {} done.",
            counted.join(" ")
        ),
        call: None,
        is_slow: true,
    }
}

fn last_words(conversation: &Conversation, done: &str) -> String {
    let mut text = done.to_owned();
    if let Some(result) = conversation.results.last() {
        let result = excerpt(result).replace("```", "'''");
        text.push_str("\n\nThe last thing that came back was:\n\n```\n");
        text.push_str(&result);
        text.push_str("\n```");
    }
    text.push_str(
        "\n\nI am the demo model: a script, not a language model. I can also `write FILE with \
         TEXT`, `run COMMAND`, `clone ADDRESS`, `serve` a page, and be `slow`. For real work, \
         choose a real model.",
    );
    text
}

/// All the tools that will be called, in order, and what is said in the end.
struct Play<'a> {
    tools: &'a Conversation,
    calls: Vec<(String, Call)>,
    done: &'static str,
}

const PAGE: &str = "nacre-demo/index.html";
const PORT: u16 = 3000;

impl<'a> Play<'a> {
    fn new(conversation: &'a Conversation, wish: &Wish) -> Self {
        let mut play = Self {
            tools: conversation,
            calls: Vec::new(),
            done: "",
        };
        match wish {
            Wish::Write { file, text } => {
                play.write(&format!("I write {file}."), file, &format!("{text}\n"));
                play.run("Then I look at it.", &format!("cat -- {}", quoted(file)));
                play.done = "The file is written.";
            }
            Wish::Run { command } => {
                play.run("I run that.", command);
                play.done = "It ran.";
            }
            Wish::Clone { address } => {
                let folder = "nacre-demo-clone";
                let clone = format!("git clone --depth 1 -- {} {folder}", quoted(address));
                play.run("I clone it.", &clone);
                play.run("Then I look around in it.", &format!("ls -la {folder}"));
                play.done = "The clone is in nacre-demo-clone, if git had nothing against it.";
            }
            Wish::Serve => play.serve(),
            Wish::Slow { .. } | Wish::Anything => play.usual(),
        }
        if play.calls.is_empty() {
            play.done = "None of the tools that I know was offered to me.";
        }
        play
    }

    fn usual(&mut self) {
        let said = plain(&self.tools.prompt, 120);
        self.run(
            "I am the demo model: scripted, not a language model. First I look around.",
            "pwd; ls -la; git log --oneline -3 2>/dev/null || true",
        );
        let program = format!(
            "#!/bin/sh\n\
             # Written by the demo model of Nacre.\n\
             echo 'You said: {said}'\n\
             echo \"Things in this directory: $(ls | wc -l). Now: $(date).\"\n"
        );
        self.write("Now I write a small program.", "nacre-demo.sh", &program);
        self.run("And I run it.", "sh nacre-demo.sh");
        self.done = "I looked around, wrote nacre-demo.sh and ran it.";
    }

    fn serve(&mut self) {
        let page = "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Nacre demo</title>\n\
                    <h1>Hello from a sandbox</h1>\n\
                    <p>This page was written and is served by the demo model.</p>\n";
        self.write("I write a page.", PAGE, page);
        let server = format!("python3 -m http.server {PORT} --directory nacre-demo");
        if self.tools.tool(SERVICES).is_some() {
            let service = json!({ "name": "nacre-demo", "command": server });
            self.call("I start a server for it, as a service.", SERVICES, service);
            let port = json!({ "port": PORT });
            self.call("The preview is to show its port.", EXPOSE, port);
        } else {
            let behind = format!("nohup {server} >/tmp/nacre-demo.log 2>&1 & echo started");
            self.run("I start a server for it.", &behind);
        }
        let address = format!("http://127.0.0.1:{PORT}/");
        // It takes a moment to start, and no proxy leads to it.
        let look = format!("curl -s --noproxy '*' --retry 5 --retry-connrefused {address}");
        self.run("I ask it for the page.", &look);
        self.done = "nacre-demo/index.html is served on port 3000: open the preview.";
    }

    fn run(&mut self, text: &str, command: &str) {
        let arguments = json!({ "command": command, "description": text });
        self.call(text, "bash", arguments);
    }

    fn write(&mut self, text: &str, file: &str, content: &str) {
        let Some(tool) = self.tools.tool("write") else {
            // Whatever the letters are, the shell sees one word.
            let folder = file.rsplit_once('/').map_or(".", |(folder, _)| folder);
            let command = format!(
                "mkdir -p -- {} && printf %s {} > {}",
                quoted(folder),
                quoted(content),
                quoted(file)
            );
            return self.run(text, &command);
        };
        let path = path_argument(tool);
        self.call(text, "write", json!({ path: file, "content": content }));
    }

    /// Nothing, if the agent has no such tool.
    fn call(&mut self, text: &str, tool: &str, arguments: Value) {
        if self.tools.tool(tool).is_none() {
            return;
        }
        let call = Call {
            tool: tool.to_owned(),
            arguments,
        };
        self.calls.push((text.to_owned(), call));
    }
}

/// The workplace's own tools, as the agent calls them.
const SERVICES: &str = "nacre_services_start";
const EXPOSE: &str = "nacre_services_expose";

fn path_argument(tool: &Tool) -> &'static str {
    let names = ["filePath", "file_path", "path"];
    let known = |name: &&str| tool.arguments.iter().any(|argument| argument == name);
    names.into_iter().find(known).unwrap_or("filePath")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(prompt: &str, tools: &[&str], results: usize) -> Conversation {
        Conversation {
            prompt: prompt.to_owned(),
            prompts: vec![prompt.to_owned()],
            results: vec!["fine".to_owned(); results],
            tools: tools
                .iter()
                .map(|name| Tool {
                    name: (*name).to_owned(),
                    arguments: Vec::new(),
                })
                .collect(),
            ..Conversation::default()
        }
    }

    fn calls(prompt: &str, tools: &[&str]) -> Vec<String> {
        let steps = (0..20).map(|results| next(&conversation(prompt, tools, results)));
        let calls = steps.map_while(|step| step.call);
        calls.map(|call| call.tool).collect()
    }

    #[test]
    fn each_play_ends() {
        assert_eq!(
            calls("hello", &["bash", "write"]),
            ["bash", "write", "bash"]
        );
        assert_eq!(calls("run ls", &["bash", "write"]), ["bash"]);
        assert_eq!(
            calls("write a with b", &["bash", "write"]),
            ["write", "bash"]
        );
        assert_eq!(
            calls("serve", &["bash", "write"]),
            ["write", "bash", "bash"]
        );
        assert_eq!(
            calls("serve", &["bash", "write", SERVICES, EXPOSE]),
            ["write", SERVICES, EXPOSE, "bash"]
        );
        assert_eq!(calls("slow", &["bash"]).len(), 0);
    }

    #[test]
    fn without_a_tool_to_write_the_shell_writes() {
        assert_eq!(calls("hello", &["bash"]), ["bash", "bash", "bash"]);
        let step = next(&conversation("write it's/a file.txt with x", &["bash"], 0));
        assert!(step.call.is_some());
    }

    #[test]
    fn without_any_tool_it_says_so() {
        let step = next(&conversation("hello", &["unknown"], 0));
        assert_eq!(step.call, None);
        assert!(step.text.contains("None of the tools"), "{}", step.text);
    }

    #[test]
    fn the_last_words_say_what_it_is() {
        let step = next(&conversation("hello", &["bash", "write"], 3));
        assert!(step.text.contains("not a language model"));
        assert!(step.text.contains("fine"));
    }
}

use clap::{Parser, Subcommand};

use crate::commands::{
    base, bench, completions, config, doctor, internal, login, man, prove, repo, sandbox, secret,
    serve, session, snapshot, storage, token,
};

/// Runs coding agents in sandboxes and never loses their work.
#[derive(Debug, Parser)]
#[command(
    name = "nacre",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  nacre up                             # a server here, and a link for the browser
  nacre session new --repo https://github.com/me/app --prompt 'make the tests pass' --follow
  nacre session attach ID              # talk to it, on the whole screen
  nacre session fork ID                # try it another way, from the same files
  nacre sandbox create --name box      # a sandbox alone, without a server

`nacre doctor` says whether this machine is ready; `--help` after a command has its examples."
)]
pub(crate) struct Arguments {
    /// Print JSON: results on stdout, errors on stderr
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything on this machine, and say where to find it
    Up(serve::UpArguments),
    /// Serve, without a word to people: for services and other machines
    #[command(after_help = "\
Examples:
  nacre serve --listen 127.0.0.1:8080
  nacre serve --role gateway,worker     # beside others, on one PostgreSQL")]
    Serve(serve::ServeArguments),
    /// Make sessions, talk to their agents, and keep what they did
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre session new --repo https://github.com/me/app --prompt 'make the tests pass' --follow
  nacre session attach ID              # talk to it, on the whole screen
  nacre session ls --watch"
    )]
    Session(session::Command),
    /// Print a link that signs a browser in: good once, for a few minutes
    Login(login::Arguments),
    /// Repositories to choose from
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre repo add https://github.com/me/app
  nacre session new --repo $(nacre repo ls --json | jq -r '.repositories[0].url')"
    )]
    Repo(repo::Command),
    /// Keys and passwords: of models, of git hosts, and for programs in sessions
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre secret set --model anthropic   # asks for the key
  nacre secret set --git github.com < token.txt"
    )]
    Secret(secret::Command),
    /// Who may use the server
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre token create laptop
  nacre token rm ID"
    )]
    Token(token::Command),
    /// Make, use and end sandboxes
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre sandbox create --name box
  nacre sandbox exec box -it -- bash
  nacre sandbox fork box -n 3"
    )]
    Sandbox(sandbox::Command),
    /// Look at and remove snapshots
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre snapshot ls
  nacre snapshot export base base.nacre"
    )]
    Snapshot(snapshot::Command),
    /// What is on the disk
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre storage usage
  nacre storage gc"
    )]
    Storage(storage::Command),
    /// The root file system that sandboxes start from
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre base build --slim"
    )]
    Base(base::Command),
    /// How long sandboxes take on this machine
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre bench sandbox --quick"
    )]
    Bench(bench::Command),
    /// What is promised, tried
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre prove crash --rounds 10"
    )]
    Prove(prove::Command),
    /// Check whether this machine can run sandboxes
    #[command(after_help = "\
Examples:
  nacre doctor
  nacre doctor --fix --only 'upstream proxy'")]
    Doctor(doctor::Arguments),
    /// The configuration
    #[command(
        subcommand,
        after_help = "\
Examples:
  nacre config check"
    )]
    Config(config::Command),
    /// Print a shell's completion script
    #[command(after_help = "\
Examples:
  nacre completions bash > /etc/bash_completion.d/nacre
  nacre completions fish > ~/.config/fish/completions/nacre.fish")]
    Completions(completions::Arguments),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    #[command(after_help = "\
Examples:
  nacre man /usr/local/share/man/man1")]
    Man(man::Arguments),
    /// What nacre runs of itself
    #[command(subcommand, hide = true)]
    Internal(internal::Command),
}

impl Command {
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Serve(_))
    }

    /// Carries many connections at once, or many sessions.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Sandbox(sandbox::Command::Port(_))
                | Self::Session(session::Command::Port(_))
                | Self::Bench(bench::Command::Hub(_))
                | Self::Up(_)
                | Self::Serve(_)
                | Self::Internal(
                    internal::Command::ProveServer(_) | internal::Command::BenchGateway(_)
                )
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Every visible command with its path and its help, groups too.
    fn pages(command: &clap::Command, path: &str, pages: &mut Vec<(String, String)>) {
        let help = command.clone().render_long_help().to_string();
        pages.push((path.to_owned(), help));
        let visible = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set());
        for below in visible.filter(|below| below.get_name() != "help") {
            self::pages(below, &format!("{path} {}", below.get_name()), pages);
        }
    }

    fn all_pages() -> Vec<(String, String)> {
        let mut command = Arguments::command();
        command.build();
        let mut all = Vec::new();
        pages(&command, "nacre", &mut all);
        all
    }

    fn examples(help: &str) -> impl Iterator<Item = &str> {
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        lines
            .take_while(|line| line.starts_with("  "))
            .map(str::trim)
    }

    /// The words of a shell's line, up to what is another program's.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (c, quote) {
                (c, Some(open)) if c == open => quote = None,
                ('\'' | '"', None) => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                ('#' | '|' | '<' | '>' | '&', None) if word.is_none() => break,
                (' ', None) => words.extend(word.take()),
                (c, _) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    /// What a shell would run of ours, first what it runs to have its output.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        let mut line = line.to_owned();
        if let Some((before, rest)) = line.clone().split_once("$(") {
            let (inside, after) = rest.rsplit_once(')').unwrap();
            found.extend(commands(inside));
            let is_address = before.ends_with("--repo ");
            let printed = if is_address { "https://host/app" } else { "ID" };
            line = format!("{before}{printed}{after}");
        }
        let pieces = line.split(" | ").flat_map(|piece| piece.split(" && "));
        for piece in pieces {
            let words = words(piece);
            if let Some(at) = words.iter().position(|word| word == "nacre") {
                // Whoever pipes into xargs gives the last words.
                let given = words[..at].iter().any(|word| word == "xargs");
                let given = given.then(|| "ID".to_owned());
                found.push(words[at..].iter().cloned().chain(given).collect());
            }
        }
        found
    }

    #[test]
    fn every_command_teaches_by_an_example_of_its_own() {
        for (path, help) in all_pages() {
            let is_group = help.contains("\nCommands:\n");
            let shows = examples(&help).any(|line| is_group || line.contains(&path));
            assert!(shows, "`{path} --help` has no example:\n{help}");
        }
    }

    #[test]
    fn what_examples_show_can_be_typed() {
        let mut tried = 0;
        for (path, help) in all_pages() {
            for line in examples(&help) {
                for command in commands(line) {
                    let parsed = Arguments::try_parse_from(&command);
                    assert!(
                        parsed.is_ok(),
                        "`{path} --help` shows {command:?}: {parsed:?}"
                    );
                    tried += 1;
                }
            }
        }
        assert!(tried > 100, "{tried}");
    }
}

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
    arg_required_else_help = true
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
    Up(serve::Arguments),
    /// Serve, without a word to people: for services and other machines
    Serve(serve::ServeArguments),
    /// Make sessions, talk to their agents, and keep what they did
    #[command(subcommand)]
    Session(session::Command),
    /// Print a link that signs a browser in: good once, for a few minutes
    Login(login::Arguments),
    /// Repositories to choose from
    #[command(subcommand)]
    Repo(repo::Command),
    /// Keys and passwords: of models, of git hosts, and for programs in sessions
    #[command(subcommand)]
    Secret(secret::Command),
    /// Who may use the server
    #[command(subcommand)]
    Token(token::Command),
    /// Make, use and end sandboxes
    #[command(subcommand)]
    Sandbox(sandbox::Command),
    /// Look at and remove snapshots
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// What is on the disk
    #[command(subcommand)]
    Storage(storage::Command),
    /// The root file system that sandboxes start from
    #[command(subcommand)]
    Base(base::Command),
    /// How long sandboxes take on this machine
    #[command(subcommand)]
    Bench(bench::Command),
    /// What is promised, tried
    #[command(subcommand)]
    Prove(prove::Command),
    /// Check whether this machine can run sandboxes
    Doctor(doctor::Arguments),
    /// The configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Print a shell's completion script
    Completions(completions::Arguments),
    /// Write the manual pages into a directory
    #[command(hide = true)]
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

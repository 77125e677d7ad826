//! `nacre` inside a sandbox: services, env files, tunnels, snapshots and actions from a shell. It
//! asks the workplace over its unix socket and does nothing itself. Small, because every sandbox has
//! a copy in memory.

#![forbid(unsafe_code)]

mod arguments;
mod client;
mod help;
mod show;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use arguments::Arguments;
use client::{Answer, Client};

/// What went wrong, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    Unavailable = 5,
}

#[derive(Debug)]
struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}

/// How often an action that waits for approval is asked after.
const POLL: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has read enough.
        Err(failure) if failure.message == io::ErrorKind::BrokenPipe.to_string() => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(io::stderr(), "nacre: {}", failure.message);
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), Failure> {
    let mut arguments = Arguments::parse(arguments)?;
    if arguments.has("version") {
        return say(concat!("nacre ", env!("CARGO_PKG_VERSION"), " (inside)\n"));
    }
    let area = arguments.word().unwrap_or_default();
    if area.is_empty() || area == "help" || arguments.has("help") {
        return say(help::of(&area));
    }
    let client = Client::new();
    match area.as_str() {
        "services" => services(&client, &mut arguments),
        "env" => env(&client, &mut arguments),
        "tunnel" => tunnel(&client, &mut arguments),
        "ports" => {
            arguments.end()?;
            let answer = client.get("/api/ports")?.json()?;
            print(&arguments, &answer, show::ports)
        }
        "snapshot" => {
            arguments.end()?;
            let body = json!({"message": arguments.value("message")});
            let answer = client.post("/api/snapshot", &body)?.json()?;
            print(&arguments, &answer, show::snapshot)
        }
        "actions" => actions(&client, &mut arguments),
        other => Err(Failure::usage(format!(
            "there is no command {other:?}; `nacre --help` shows those there are"
        ))),
    }
}

fn services(client: &Client, arguments: &mut Arguments) -> Result<(), Failure> {
    match arguments.verb("services")?.as_str() {
        "list" | "ls" => {
            arguments.end()?;
            let answer = client.get("/api/services")?.json()?;
            print(arguments, &answer, show::services)
        }
        "start" => {
            let name = arguments.named("name")?;
            arguments.end()?;
            let answer = match arguments.value("command") {
                Some(command) => {
                    let mut body = json!({"name": name, "command": command});
                    if let Some(cwd) = arguments.value("cwd") {
                        body["cwd"] = cwd.into();
                    }
                    client.post("/api/services", &body)?
                }
                None => client.post(&service(&name, "/start"), &json!({}))?,
            };
            print(arguments, &answer.json()?, show::service)
        }
        verb @ ("stop" | "restart") => {
            let name = arguments.named("name")?;
            arguments.end()?;
            let answer = client.post(&service(&name, &format!("/{verb}")), &json!({}))?;
            print(arguments, &answer.json()?, show::service)
        }
        "rm" => {
            let name = arguments.named("name")?;
            arguments.end()?;
            let answer = client.delete(&service(&name, ""))?.json()?;
            print(arguments, &answer, show::done)
        }
        "logs" => {
            let name = arguments.named("name")?;
            arguments.end()?;
            let mut query = String::from("?");
            if arguments.has("follow") {
                query.push_str("follow=true&");
            }
            if let Some(tail) = arguments.value("tail") {
                query.push_str("tail=");
                query.push_str(&client::encode(&tail));
            }
            client
                .get(&service(&name, &format!("/logs{query}")))?
                .copy()
        }
        "expose" => {
            let port = arguments.named("port")?;
            arguments.end()?;
            let body = json!({"port": number(&port)?});
            let answer = client.post("/api/expose", &body)?.json()?;
            print(arguments, &answer, show::exposed)
        }
        other => Err(no_verb("services", other)),
    }
}

fn env(client: &Client, arguments: &mut Arguments) -> Result<(), Failure> {
    let verb = arguments.verb("env")?;
    arguments.end()?;
    let spec = arguments
        .value("spec")
        .map(|spec| read_json(&spec))
        .transpose()?;
    match verb.as_str() {
        "apply" => {
            let spec = spec.ok_or_else(|| Failure::usage("`--spec` is missing"))?;
            let body = json!({"values": values_of(&spec), "spec": spec});
            let answer = client.post("/api/env/apply", &body)?.json()?;
            print(arguments, &answer, show::applied)
        }
        "scrub" => {
            let answer = client
                .post("/api/env/scrub", &json!({"spec": spec}))?
                .json()?;
            print(arguments, &answer, show::scrubbed)
        }
        other => Err(no_verb("env", other)),
    }
}

/// What our own environment has for the keys of a specification.
#[expect(
    clippy::disallowed_methods,
    reason = "the caller's environment is what it was asked to pass on"
)]
fn values_of(spec: &Value) -> BTreeMap<String, String> {
    let files = spec.as_array().map_or(&[][..], Vec::as_slice);
    let keys = files
        .iter()
        .filter_map(|file| file["keys"].as_array())
        .flatten()
        .filter_map(|key| key["key"].as_str());
    keys.filter_map(|key| Some((key.to_owned(), std::env::var(key).ok()?)))
        .collect()
}

fn tunnel(client: &Client, arguments: &mut Arguments) -> Result<(), Failure> {
    match arguments.verb("tunnel")?.as_str() {
        "ls" | "list" => {
            arguments.end()?;
            let answer = client.get("/api/tunnels")?.json()?;
            print(arguments, &answer, show::tunnels)
        }
        "add" => {
            let name = arguments.named("name")?;
            let port = arguments.named("port")?;
            arguments.end()?;
            let protocol = arguments.value("protocol");
            let protocol = protocol.as_deref().unwrap_or("http");
            let body = json!({"name": name, "port": number(&port)?, "protocol": protocol});
            let answer = client.post("/api/tunnels", &body)?.json()?;
            print(arguments, &answer, show::tunnel)
        }
        "rm" => {
            let name = arguments.named("name")?;
            arguments.end()?;
            let path = format!("/api/tunnels/{}", client::encode(&name));
            print(arguments, &client.delete(&path)?.json()?, show::done)
        }
        other => Err(no_verb("tunnel", other)),
    }
}

fn actions(client: &Client, arguments: &mut Arguments) -> Result<(), Failure> {
    match arguments.verb("actions")?.as_str() {
        "list" | "ls" => {
            arguments.end()?;
            print(arguments, &client.get("/api/actions")?.json()?, show::value)
        }
        "guide" => {
            let integration = arguments.named("integration")?;
            arguments.end()?;
            let path = format!("/api/actions/guide/{}", client::encode(&integration));
            print(arguments, &client.get(&path)?.json()?, show::value)
        }
        "run" => {
            arguments.end()?;
            let need = |name: &str| {
                let missing = || Failure::usage(format!("`--{name}` is missing"));
                arguments.value(name).ok_or_else(missing)
            };
            let params = arguments.value("params");
            let params = params.map_or(Ok(json!({})), |params| read_json(&params))?;
            let body = json!({
                "integration": need("integration")?,
                "action": need("action")?,
                "params": params,
            });
            let answer = client.post("/api/actions/invoke", &body)?.json()?;
            let settled = await_approval(client, answer)?;
            print(arguments, &settled, show::value)
        }
        other => Err(no_verb("actions", other)),
    }
}

fn await_approval(client: &Client, mut answer: Value) -> Result<Value, Failure> {
    let mut told = false;
    loop {
        let status = answer["status"].as_str().unwrap_or_default().to_owned();
        match status.as_str() {
            "pending" | "approved" | "executing" => {}
            "denied" | "expired" => {
                let message = answer["message"]
                    .as_str()
                    .unwrap_or("nobody approved in time");
                let message = format!("the action was {status}: {message}");
                return Err(Failure::new(Exit::Refused, message));
            }
            "failed" => {
                let error = answer["message"].as_str().unwrap_or("the action failed");
                return Err(Failure::new(Exit::Failed, error));
            }
            _ => return Ok(answer),
        }
        if !told {
            let _ = writeln!(io::stderr(), "nacre: waiting for somebody to approve");
            told = true;
        }
        let id = answer["invocation"].as_str().unwrap_or_default();
        let path = format!("/api/actions/invocations/{}", client::encode(id));
        std::thread::sleep(POLL);
        answer = client.get(&path)?.json()?;
    }
}

fn service(name: &str, rest: &str) -> String {
    format!("/api/services/{}{rest}", client::encode(name))
}

fn no_verb(area: &str, verb: &str) -> Failure {
    Failure::usage(format!(
        "`nacre {area}` cannot {verb:?}; `nacre {area} --help` shows what it can"
    ))
}

fn number(text: &str) -> Result<u16, Failure> {
    let port = text.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| Failure::usage(format!("{text:?} is not a port: 1 to 65535")))
}

/// As it is, from a file with `@`, from standard input with `-`.
fn read_json(text: &str) -> Result<Value, Failure> {
    let text = match text.strip_prefix('@') {
        Some(path) => fs_err::read_to_string(path)?,
        None if text == "-" => {
            let mut read = String::new();
            io::stdin().read_to_string(&mut read)?;
            read
        }
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| Failure::usage(format!("not JSON: {error}")))
}

fn print(
    arguments: &Arguments,
    answer: &Value,
    for_people: fn(&Value) -> String,
) -> Result<(), Failure> {
    if arguments.has("json") {
        say(&format!("{answer}\n"))
    } else {
        say(&for_people(answer))
    }
}

fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

impl Answer {
    fn failure(status: u16, body: &[u8]) -> Failure {
        let exit = match status {
            400 | 413 => Exit::Usage,
            404 => Exit::NotFound,
            401 | 403 | 409 => Exit::Refused,
            429 | 503 | 504 => Exit::Unavailable,
            _ => Exit::Failed,
        };
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = value["error"].as_str().map(str::to_owned);
        let message = message.unwrap_or_else(|| format!("the workplace answered {status}"));
        Failure::new(exit, message)
    }
}

use std::collections::BTreeMap;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use model::ByteCount;
use provider::{
    Forward, Isolation, LinkBy, Network, Origin, Runtime, Sandbox, SandboxId, SandboxSpec,
    Workplace,
};
use provider_local::{EgressRule, EgressRuleError};
use serde::Serialize;

use super::{key_and_value, milliseconds, name};
use crate::app::{App, Engine};
use crate::error::{CommandError, Kind};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What its disk starts from: a snapshot's id or name, `host`, or `base` [default: `base` if
    /// it was built, else `host`]
    #[arg(long, value_name = "SNAPSHOT|host|base", conflicts_with = "rootfs")]
    from: Option<String>,
    /// Start from a root file system: a directory or a tar
    #[arg(long, value_name = "DIR|TAR")]
    rootfs: Option<PathBuf>,
    /// A name to call it by
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// The most memory it may use, such as 512M or 2G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<ByteCount>,
    /// The most processes and threads it may have
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pids: Option<u64>,
    /// How many cores it may keep busy, such as 1.5
    #[arg(long, value_name = "CORES", value_parser = cpu_millis)]
    cpus: Option<u64>,
    /// The most disk it may use, such as 10G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    disk: Option<ByteCount>,
    /// A variable in the environment of everything that runs in it
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    env: Vec<(String, String)>,
    /// What stands between it and the host
    #[arg(long, value_enum, default_value_t = RuntimeName::Native)]
    runtime: RuntimeName,
    /// What it reaches on the network
    #[arg(long, value_enum, default_value_t = NetworkName::None)]
    net: NetworkName,
    /// With `--net proxy`: a host it may reach beyond package registries and git hosts, as
    /// `example.org`, `example.org:8443`, `*.example.org` or `*`; without a port, 80 and 443
    #[arg(long, value_name = "HOST", value_parser = rule)]
    allow: Vec<String>,
    /// A port on its loopback that leads to an address of the host
    #[arg(long, value_name = "PORT=HOST:PORT", value_parser = served)]
    serve: Vec<Served>,
    /// Make it a place to work in: the agent, services, terminal, editor, desktop, as far as its
    /// disk has them. `nacre sandbox link` talks to it
    #[arg(long)]
    workplace: bool,
    /// A label to find it by
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    label: Vec<(String, String)>,
    /// With `--net host`: I know that it then reaches everything the host reaches
    #[arg(long)]
    i_know: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuntimeName {
    /// Namespaces on the host's kernel
    Native,
    /// gVisor, a kernel of its own in user space
    Runsc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NetworkName {
    /// Its own loopback
    None,
    /// Loopback, and a proxy that lets through package registries, git hosts and what `--allow`
    /// names
    Proxy,
    /// The host's network itself; needs `--i-know`
    Host,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Served {
    port: u16,
    to: String,
}

/// What a user gets for a new sandbox.
#[derive(Debug, Serialize)]
struct Created {
    #[serde(flatten)]
    sandbox: New,
    created_ms: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct New {
    id: SandboxId,
    name: Option<String>,
    runtime: Runtime,
    isolation: Isolation,
    generation: u64,
}

impl From<Sandbox> for New {
    fn from(sandbox: Sandbox) -> Self {
        let Sandbox {
            id,
            name,
            runtime,
            isolation,
            generation,
            ..
        } = sandbox;
        Self {
            id,
            name,
            runtime,
            isolation,
            generation,
        }
    }
}

impl New {
    pub(super) fn shown(&self) -> String {
        format!(
            "{}  {}  {}",
            self.id,
            self.name.as_deref().unwrap_or("-"),
            self.isolation
        )
    }
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<(), CommandError> {
    arguments.check()?;
    let engine = app.engine()?;
    let origin = origin(
        &engine,
        arguments.from.as_deref(),
        arguments.rootfs.as_deref(),
    )?;
    let spec = arguments.spec(origin)?;
    let progress = app.output.progress("making the sandbox");
    let started = Instant::now();
    let sandbox = engine.provider().create(&spec).await?;
    let created = Created {
        sandbox: sandbox.into(),
        created_ms: milliseconds(started),
    };
    drop(progress);
    app.output.result(&created, || {
        format!("{}  {:.1} ms", created.sandbox.shown(), created.created_ms)
    })
}

impl Arguments {
    /// What clap cannot say of several arguments together.
    fn check(&self) -> Result<(), CommandError> {
        if self.net == NetworkName::Host && !self.i_know {
            return Err(CommandError::usage(
                "`--net host` lets the sandbox reach everything the host reaches",
            )
            .hint("add `--i-know` if that is meant, or use `--net none`"));
        }
        if !self.allow.is_empty() && self.net != NetworkName::Proxy {
            return Err(CommandError::usage(
                "`--allow` is a rule for the proxy, and there is none",
            )
            .hint("add `--net proxy`"));
        }
        if self.workplace && self.runtime == RuntimeName::Runsc {
            return Err(CommandError::usage(
                "a workplace does not run under gVisor yet: its link door cannot tell who knocks",
            )
            .hint("leave out `--runtime runsc`"));
        }
        for (place, served) in self.serve.iter().enumerate() {
            if self.serve[..place]
                .iter()
                .any(|earlier| earlier.port == served.port)
            {
                return Err(CommandError::usage(format!(
                    "port {} is served twice",
                    served.port
                )));
            }
        }
        Ok(())
    }

    fn spec(self, origin: Origin) -> Result<SandboxSpec, CommandError> {
        Ok(SandboxSpec {
            name: self.name,
            memory: self.memory,
            pids: self.pids,
            cpu_millis: self.cpus,
            disk: self.disk,
            env: BTreeMap::from_iter(self.env),
            labels: BTreeMap::from_iter(self.label),
            network: match self.net {
                NetworkName::None => Network::None,
                NetworkName::Proxy => Network::Proxy,
                NetworkName::Host => Network::Host,
            },
            allow: self.allow,
            runtime: match self.runtime {
                RuntimeName::Native => Runtime::Native,
                RuntimeName::Runsc => Runtime::Runsc,
            },
            forwards: self
                .serve
                .iter()
                .map(Served::resolve)
                .collect::<Result<_, _>>()?,
            workplace: self.workplace.then_some(Workplace {
                session: None,
                link: LinkBy::Door,
            }),
            ..SandboxSpec::from(origin)
        })
    }
}

fn origin(
    engine: &Engine,
    from: Option<&str>,
    rootfs: Option<&Path>,
) -> Result<Origin, CommandError> {
    if let Some(path) = rootfs {
        let path = fs_err::canonicalize(path).map_err(|error| {
            let kind = if error.kind() == std::io::ErrorKind::NotFound {
                Kind::NotFound
            } else {
                Kind::Failed
            };
            CommandError::new(kind, error)
        })?;
        return Ok(Origin::Rootfs(path));
    }
    match from {
        None => Ok(engine.local.base()?.map_or(Origin::Bare, Origin::Snapshot)),
        Some("host") => Ok(Origin::Bare),
        Some("base") => engine.local.base()?.map(Origin::Snapshot).ok_or_else(|| {
            CommandError::not_found("there is no base yet").hint("`nacre base build` makes it")
        }),
        Some(text) => engine.snapshot(text).map(Origin::Snapshot),
    }
}

impl Served {
    fn resolve(&self) -> Result<Forward, CommandError> {
        let unavailable = |why: String| {
            CommandError::new(
                Kind::Unavailable,
                format!("cannot resolve {}: {why}", self.to),
            )
        };
        let mut addresses = self
            .to
            .to_socket_addrs()
            .map_err(|error| unavailable(error.to_string()))?;
        let to = addresses
            .next()
            .ok_or_else(|| unavailable("it has no address".to_owned()))?;
        Ok(Forward {
            port: self.port,
            to,
        })
    }
}

fn served(text: &str) -> Result<Served, String> {
    let wrong = || format!("`{text}` is not of the form PORT=HOST:PORT");
    let port = |text: &str| {
        text.parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(wrong)
    };
    let (own, to) = text.split_once('=').ok_or_else(wrong)?;
    let (host, theirs) = to.rsplit_once(':').ok_or_else(wrong)?;
    // An IPv6 address without brackets has its port in doubt.
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !bracketed) {
        return Err(wrong());
    }
    port(theirs)?;
    Ok(Served {
        port: port(own)?,
        to: to.to_owned(),
    })
}

/// A rule of the proxy, in its one spelling.
fn rule(text: &str) -> Result<String, String> {
    let rule: EgressRule = text
        .parse()
        .map_err(|error: EgressRuleError| error.to_string())?;
    Ok(rule.to_string())
}

fn size(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text
        .parse()
        .map_err(|error: model::ByteCountError| error.to_string())?;
    if size.bytes() == 0 {
        Err("it must be more than nothing".to_owned())
    } else {
        Ok(size)
    }
}

/// More cores than any machine has, and a bound on what the arithmetic below can meet.
const MOST_CORES: u64 = 4096;

/// `1.5` as thousandths.
fn cpu_millis(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "`{text}` is not a number of cores: write a decimal such as 1.5, at most {MOST_CORES}"
        )
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return Err(wrong());
    }
    let whole: u64 = whole
        .parse()
        .ok()
        .filter(|whole| *whole <= MOST_CORES)
        .ok_or_else(wrong)?;
    let thousandths: u64 = format!("{fraction:0<3}").parse().map_err(|_| wrong())?;
    let millis = whole * 1000 + thousandths;
    if millis == 0 || millis > MOST_CORES * 1000 {
        Err(wrong())
    } else {
        Ok(millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_read_to_the_thousandth() {
        for (text, millis) in [
            ("1", 1000),
            ("1.5", 1500),
            ("0.25", 250),
            ("0.001", 1),
            ("4096", 4_096_000),
        ] {
            assert_eq!(cpu_millis(text), Ok(millis), "{text}");
        }
        for bad in [
            "",
            "0",
            "0.000",
            "-1",
            "+1",
            "1.",
            ".5",
            "1.2345",
            "1e3",
            "4096.001",
            "99999999999999999999",
            "1.5.1",
        ] {
            assert!(cpu_millis(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_served_port_leads_to_a_host_and_its_port() {
        assert_eq!(
            served("80=localhost:3000"),
            Ok(Served {
                port: 80,
                to: "localhost:3000".to_owned()
            })
        );
        assert_eq!(
            served("80=[::1]:3000"),
            Ok(Served {
                port: 80,
                to: "[::1]:3000".to_owned()
            })
        );
        for bad in [
            "80",
            "80=",
            "80=host",
            "80=:1",
            "0=h:1",
            "80=h:0",
            "x=h:1",
            "80=::1:5",
            "80=h:99999",
        ] {
            assert!(served(bad).is_err(), "{bad}");
        }
    }
}

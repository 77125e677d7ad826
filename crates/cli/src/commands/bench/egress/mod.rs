//! `nacre bench egress`: how much the way out carries, beside no proxy at all and beside nginx as a
//! forward proxy, in the same rounds.

mod nginx;
mod report;
mod way;

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use provider::{Network, Origin, Provider as _, SandboxSpec};
use provider_local::{EgressSettings, Local};

use self::nginx::Nginx;
use self::report::{Figure, Report};
use self::way::{Server, Way};
use super::interrupt::Interrupt;
use super::{Place, clear, say};
use crate::app::App;
use crate::config;
use crate::error::CommandError;

/// What a response holds.
const BODIES: [usize; 2] = [1 << 10, 64 << 10];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each is measured; the middle one is told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long each is measured
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    each_ms: u64,
    /// How many connections ask at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=200))]
    connections: u32,
    /// Where the throw-away home is made [default: in the configured home]
    #[arg(long, value_name = "DIR")]
    home: Option<Utf8PathBuf>,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::listen()?;
    let configured = config::load()?.local;
    let place = Place::make(arguments.home.as_deref().unwrap_or(&configured.home))?;
    let home = place.directory.path().join("h");
    let server = Server::start(&BODIES).await?;
    let nginx = Nginx::start(&place.directory.path().join("nginx"), server.address).await?;
    let local = Local::open(&provider_local::Config {
        home: home.clone(),
        egress: EgressSettings {
            registries: false,
            allow: vec![server.address.to_string()],
            private: vec!["127.0.0.0/8".to_owned()],
            ..EgressSettings::default()
        },
        ..configured
    })?;
    let measured = measure(
        &local,
        &server,
        nginx.as_ref(),
        arguments,
        &interrupt,
        &home,
    )
    .await;
    drop(nginx);
    let cleared = clear(&local).await;
    drop(local);
    cleared?;
    place.remove()?;
    let report = measured?;
    app.output.result(&report, || report.shown())
}

async fn measure(
    local: &Local,
    server: &Server,
    nginx: Option<&Nginx>,
    arguments: &Arguments,
    interrupt: &Interrupt,
    home: &Utf8Path,
) -> Result<Report, CommandError> {
    let spec = SandboxSpec {
        network: Network::Proxy,
        ..SandboxSpec::from(Origin::Bare)
    };
    let sandbox = local.create(&spec).await?.id;
    let mut ways = vec![
        Way::Direct,
        Way::Nacre { local, sandbox },
        Way::NacreTunnel { local, sandbox },
    ];
    if let Some(nginx) = nginx {
        ways.push(Way::Nginx(nginx.forward));
        ways.push(Way::NginxKept(nginx.kept));
    }
    let each = Duration::from_millis(arguments.each_ms);
    let mut report = Report::new(arguments.connections, home);
    for round in 0..arguments.rounds {
        say(&format!("round {} of {}", round + 1, arguments.rounds));
        for bytes in BODIES {
            for way in &ways {
                if interrupt.is_asked() {
                    return Err(CommandError::failed(
                        "interrupted; what was made is removed",
                    ));
                }
                let connections = arguments.connections as usize;
                let rate = way::run(way, server.address, bytes, connections, each).await?;
                report.add(&Figure {
                    way: way.name(),
                    bytes,
                    rate,
                });
            }
        }
    }
    report.finish();
    Ok(report)
}

use std::time::Duration;

use provider::SandboxId;
use provider_local::Local;
use tokio::time::{Instant, sleep};

use super::super::operations::detach;
use super::entry::ask;

/// Caddy in a sandbox, as a reverse proxy of a port; returns once it answers.
pub(in super::super) async fn start(
    local: &Local,
    id: SandboxId,
    listen: u16,
    to: u16,
    path: &str,
) -> anyhow::Result<()> {
    let caddyfile = format!(
        "{{\n admin off\n auto_https off\n}}\nhttp://:{listen} {{\n \
         reverse_proxy 127.0.0.1:{to}\n}}\n"
    );
    let start = "printf %s \"$1\" > /tmp/bench.caddy && \
                 exec caddy run --adapter caddyfile --config /tmp/bench.caddy";
    detach(local, id, &["sh", "-c", start, "sh", &caddyfile]).await?;
    let listens = Instant::now() + Duration::from_secs(20);
    loop {
        match ask(local, id, listen, &format!("GET {path}"), "", "").await {
            Ok(answer) if answer.is_ok() => return Ok(()),
            _ if Instant::now() < listens => sleep(Duration::from_millis(20)).await,
            Ok(answer) => drop(answer.checked()?),
            Err(error) => return Err(error.context("Caddy in the sandbox does not answer")),
        }
    }
}

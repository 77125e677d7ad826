//! What a session's sandboxes reach, what they were refused, and who lets what through.

use axum::extract::State;
use egress::address;
use egress::policy::Rule;
use egress::target::Host;
use model::{SignedDuration, Timestamp};
use provider::{Capability, Network, Pass, ProviderError};
use serde_json::json;
use sessions::Machine;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::{App, read_spec};
use crate::auth::Caller;
use crate::extract::{Json, Named};
use crate::problem::{Answer, Problem};

/// "Once" is a command, not a connection: what was refused has failed by now and is tried again, by
/// a person or an agent, and most tools open several connections.
const ONCE: SignedDuration = SignedDuration::from_mins(5);
/// Of a new session's own list.
const RULES: usize = 200;
const LONGEST_RULE: usize = 300;
/// Looked at for a list of what was refused.
const BLOCKED: u32 = 200;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show, allow))
}

/// What a session may reach, and what it was refused.
#[utoipa::path(get, path = "/v1/sessions/{id}/egress", tag = "egress",
    params(("id" = String, Path)), responses((status = 200, body = v1::Egress)))]
async fn show(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Egress>> {
    let record = app.session(&caller, &id).await?;
    let machine = read_spec(&record)?.machine;
    let mut blocked: Vec<v1::EgressBlocked> = Vec::new();
    for event in app.store().blocked_events(record.id, BLOCKED).await? {
        let Ok(told) = serde_json::from_str::<v1::EgressBlocked>(&event.body) else {
            continue;
        };
        let is_it =
            |known: &v1::EgressBlocked| (&known.host, known.port) == (&told.host, told.port);
        if !blocked.iter().any(is_it) {
            blocked.push(told);
        }
    }
    let now = app.now();
    let once = machine.passes.iter().filter_map(|pass| {
        Some(v1::EgressPass {
            rule: pass.rule.clone(),
            until: pass.until.filter(|until| *until > now)?.to_string(),
        })
    });
    Ok(Json(v1::Egress {
        policy: policy_of(&machine),
        once: once.collect(),
        allow: machine.allow,
        blocked,
    }))
}

/// Lets a session's sandboxes reach a host: once, or from now on.
#[utoipa::path(post, path = "/v1/sessions/{id}/egress", tag = "egress",
    params(("id" = String, Path)), request_body = v1::AllowEgress,
    responses((status = 200, body = v1::AllowedEgress)))]
async fn allow(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(wanted): Json<v1::AllowEgress>,
) -> Answer<Json<v1::AllowedEgress>> {
    caller.may_change()?;
    let record = app.session(&caller, &id).await?;
    let rule = rule_for(&wanted)?;
    if read_spec(&record)?.machine.network != Network::Proxy {
        return Err(Problem::conflict(
            "egress-none",
            "this session was made with no way out: make another with `egress`",
        ));
    }
    let provider = app.provider(&record.provider)?;
    if !provider.capabilities().has(Capability::Egress) {
        return Err(ProviderError::Unsupported(Capability::Egress).into());
    }
    let until = match wanted.allow {
        v1::Allow::Once => Some(app.now() + ONCE),
        v1::Allow::Always => None,
    };
    let mut body = json!({ "rule": rule, "allow": wanted.allow });
    if let Some(until) = until {
        body["until"] = json!(until);
    }
    let mut frame = body.clone();
    frame["type"] = json!("egress_allowed");
    frame["by"] = json!(caller.actor());
    let hub = app.hub(&caller, &id).await?;
    let pass = Pass {
        rule: rule.clone(),
        until,
    };
    app.audit(&caller, "session.egress", Some(record.id), body)
        .await?;
    let applied = hub.let_out(pass, &frame).await?;
    Ok(Json(v1::AllowedEgress {
        rule,
        allow: wanted.allow,
        until: until.as_ref().map(Timestamp::to_string),
        applied,
    }))
}

/// One host and nothing wider, as everybody who compares it writes it.
fn rule_for(wanted: &v1::AllowEgress) -> Answer<String> {
    if wanted.port == Some(0) {
        return Err(Problem::invalid("`port` is 1 to 65535"));
    }
    let host = Host::parse(wanted.host.as_bytes())
        .map_err(|error| Problem::invalid(format!("`host`: {error}")))?;
    if let Host::Address(address) = host
        && let Some(class) = address::class(address)
    {
        return Err(Problem::conflict(
            "egress-private",
            format!("{address} is {class}: only whoever runs nacre opens it, by `egress.private`"),
        ));
    }
    let rule = match wanted.port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    };
    rule.parse::<Rule>()
        .map(|rule| rule.to_string())
        .map_err(|error| Problem::invalid(error.to_string()))
}

/// What a new session's sandboxes may reach.
pub(super) fn read(
    app: &App,
    caller: &Caller,
    wanted: Option<v1::NewEgress>,
) -> Answer<(Network, Vec<String>)> {
    let usual = app.parts.offer.egress(caller.organisation);
    let wanted = wanted.unwrap_or_default();
    let policy = wanted.policy.or(usual.policy).unwrap_or_default();
    if policy != v1::EgressPolicy::Proxy && !wanted.allow.is_empty() {
        return Err(Problem::invalid("`egress.allow` is for the policy `proxy`"));
    }
    if wanted.allow.len() > RULES {
        return Err(Problem::invalid(format!(
            "`egress.allow` has at most {RULES} hosts"
        )));
    }
    let mut allow = Vec::new();
    for rule in &wanted.allow {
        if rule.len() > LONGEST_RULE {
            return Err(Problem::invalid("a host in `egress.allow` is too long"));
        }
        let read: Result<Rule, _> = rule.parse();
        let read = read.map_err(|error| Problem::invalid(format!("`egress.allow`: {error}")))?;
        allow.push(read.to_string());
    }
    let is_wide = allow.iter().any(|rule| is_everything(rule));
    let is_open = policy == v1::EgressPolicy::Open;
    if is_wide || (is_open && usual.policy != Some(v1::EgressPolicy::Open)) {
        caller.must_own()?;
    }
    Ok(match policy {
        v1::EgressPolicy::None => (Network::None, Vec::new()),
        v1::EgressPolicy::Open => (Network::Proxy, vec![EVERYTHING.to_owned()]),
        v1::EgressPolicy::Proxy => {
            allow.extend(usual.allow);
            allow.sort();
            allow.dedup();
            (Network::Proxy, allow)
        }
    })
}

const EVERYTHING: &str = "*";

fn is_everything(rule: &str) -> bool {
    rule == EVERYTHING || rule.starts_with("*:")
}

fn policy_of(machine: &Machine) -> v1::EgressPolicy {
    match machine.network {
        Network::None => v1::EgressPolicy::None,
        Network::Host => v1::EgressPolicy::Open,
        Network::Proxy if machine.allow.iter().any(|rule| rule == EVERYTHING) => {
            v1::EgressPolicy::Open
        }
        Network::Proxy => v1::EgressPolicy::Proxy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(host: &str, port: Option<u16>) -> Result<String, ()> {
        let wanted = v1::AllowEgress {
            host: host.to_owned(),
            port,
            allow: v1::Allow::Once,
        };
        rule_for(&wanted).map_err(drop)
    }

    #[test]
    fn a_host_is_let_through_as_it_is_compared_and_nothing_wider_or_private() {
        assert_eq!(rule("PyPI.org", None).unwrap(), "pypi.org");
        assert_eq!(rule("pypi.org", Some(8443)).unwrap(), "pypi.org:8443");
        assert_eq!(
            rule("93.184.216.34", Some(443)).unwrap(),
            "93.184.216.34:443"
        );
        for bad in [
            "",
            "*",
            "*.example",
            "pypi.org.",
            "pypi.org:443",
            "https://pypi.org",
            "user@pypi.org",
            "pypi.org\0.evil.example",
            "0x7f.1",
            "127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "[::1]",
            "[fd00:ec2::254]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(rule(bad, None).is_err(), "{bad}");
        }
        assert!(rule("pypi.org", Some(0)).is_err());
    }
}

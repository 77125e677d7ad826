//! What a sandbox with `--net proxy` is given: a list, a proxy beside it, and an environment in
//! which ordinary tools find both.

use std::collections::{BTreeMap, BTreeSet};

use ::egress::policy::{Private, Rule};
use ::egress::target::Target;
use ::egress::{DEFAULT_RULES, Upstream};
use camino::Utf8Path;
use model::Secret;
use provider::{Network, ProviderError, SandboxSpec};
use serde::{Deserialize, Serialize};
use wire::keeper::{EGRESS_PORT, EgressOrder, FILES};

/// More would be a sign of something else than a list of hosts.
const MAX_RULES: usize = 1000;
/// Of the host's certificate authorities; a large bundle has a few hundred kilobytes.
const MAX_BUNDLE: u64 = 2 << 20;

/// In a sandbox's directory: where the proxy writes what it decided, and where it finds what was let
/// through since the sandbox was made.
pub(crate) const LOG: &str = "egress";
pub(crate) const PASSES: &str = "passes";

/// `[egress]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressSettings {
    /// Whether the public package registries and git hosts are on every list.
    pub registries: bool,
    pub allow: Vec<String>,
    pub private: Vec<String>,
    pub upstream: Option<Secret>,
    pub pip_index: Option<String>,
    pub npm_registry: Option<String>,
    pub cargo_index: Option<String>,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            registries: true,
            allow: Vec::new(),
            private: Vec::new(),
            upstream: None,
            pip_index: None,
            npm_registry: None,
            cargo_index: None,
        }
    }
}

/// What a sandbox may reach. Settled when it is made, so that no later process with another
/// configuration changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) allow: Vec<String>,
    pub(crate) private: Vec<String>,
}

impl EgressSettings {
    /// Says what is wrong with a setting: its name and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        for rule in &self.allow {
            rule.parse::<Rule>()
                .map_err(|error| ("allow", error.to_string()))?;
        }
        for place in &self.private {
            place
                .parse::<Private>()
                .map_err(|error| ("private", error.to_string()))?;
        }
        if let Some(upstream) = &self.upstream {
            upstream
                .expose()
                .parse::<Upstream>()
                .map_err(|error| ("upstream", error.to_string()))?;
        }
        for (key, index) in self.indexes() {
            index_rule(index).map_err(|why| (key, why))?;
        }
        Ok(())
    }

    fn indexes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("pip_index", &self.pip_index),
            ("npm_registry", &self.npm_registry),
            ("cargo_index", &self.cargo_index),
        ]
        .into_iter()
        .filter_map(|(key, index)| Some((key, index.as_deref()?)))
    }

    /// What every sandbox may reach that has a proxy.
    pub fn rules(&self) -> BTreeSet<String> {
        let mut allow = BTreeSet::new();
        if self.registries {
            allow.extend(DEFAULT_RULES.iter().map(|rule| (*rule).to_owned()));
        }
        let indexes = self.indexes();
        allow.extend(indexes.filter_map(|(_, index)| index_rule(index).ok()));
        allow.extend(self.allow.iter().cloned());
        allow
    }

    /// The list of a new sandbox: the configuration's and its own.
    pub(crate) fn grant(&self, spec: &SandboxSpec) -> Option<Grant> {
        if spec.network != Network::Proxy {
            return None;
        }
        let mut allow = self.rules();
        allow.extend(spec.allow.iter().cloned());
        Some(Grant {
            allow: allow.into_iter().collect(),
            private: self.private.clone(),
        })
    }

    /// What the proxy beside a sandbox is told, whose directory this is.
    pub(crate) fn order(&self, grant: &Grant, directory: &Utf8Path, user: u32) -> EgressOrder {
        EgressOrder {
            allow: grant.allow.clone(),
            private: grant.private.clone(),
            upstream: self.upstream.as_ref().map(|u| u.expose().to_owned()),
            log: directory.join(LOG).into_string(),
            passes: Some(directory.join(PASSES).into_string()),
            user,
        }
    }

    /// What every command in such a sandbox has in its environment, unless the sandbox's own says
    /// otherwise.
    pub(crate) fn environment(&self, files: &[(String, String)]) -> BTreeMap<String, String> {
        let proxy = format!("http://127.0.0.1:{EGRESS_PORT}");
        let mut env = BTreeMap::new();
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
            env.insert(name.to_owned(), proxy.clone());
        }
        for name in ["no_proxy", "NO_PROXY"] {
            env.insert(name.to_owned(), "localhost,127.0.0.1,::1".to_owned());
        }
        if files.iter().any(|(name, _)| name == BUNDLE) {
            for name in TRUSTING {
                env.insert(name.to_owned(), format!("/run/nacre/{FILES}/{BUNDLE}"));
            }
        }
        for (name, index) in [
            ("PIP_INDEX_URL", &self.pip_index),
            ("npm_config_registry", &self.npm_registry),
        ] {
            if let Some(index) = index {
                env.insert(name.to_owned(), index.clone());
            }
        }
        env
    }

    /// What is shown in `/run/nacre/files`.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        if let Some(bundle) = host_bundle() {
            files.push((BUNDLE.to_owned(), bundle));
        }
        if let Some(index) = &self.cargo_index {
            files.push((CARGO.to_owned(), cargo_config(index)));
        }
        files
    }
}

const BUNDLE: &str = "ca-certificates.crt";
/// `/.cargo/config.toml` of our bases is a link to it: cargo looks there from everywhere, and has
/// no variable for it.
pub(crate) const CARGO: &str = "cargo.toml";

/// Variables that tell a tool whom to trust. Without them most have a list of their own.
const TRUSTING: [&str; 7] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
];

/// What sudo must not drop, for a line in sudoers.
pub(crate) const KEPT_BY_SUDO: &str = "Defaults env_keep += \"http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO CARGO_HTTP_CAINFO PIP_INDEX_URL npm_config_registry\"\n";

/// Where distributions keep the list of those whom the machine trusts.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

fn host_bundle() -> Option<String> {
    BUNDLES.iter().find_map(|path| {
        let size = std::fs::metadata(path).ok()?.len();
        (1..=MAX_BUNDLE)
            .contains(&size)
            .then(|| fs_err::read_to_string(path).ok())?
    })
}

fn cargo_config(index: &str) -> String {
    // A quoted string of TOML is one of JSON here: the address was checked to be plain.
    format!(
        "[source.crates-io]\nreplace-with = \"host\"\n\n[source.host]\nregistry = \"{index}\"\n"
    )
}

/// The rule that lets an index be reached.
pub(crate) fn index_rule(index: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\'`".contains(&byte);
    let address = index.strip_prefix("sparse+").unwrap_or(index);
    let (rest, port) = match (
        address.strip_prefix("https://"),
        address.strip_prefix("http://"),
    ) {
        (Some(rest), _) => (rest, 443),
        (_, Some(rest)) => (rest, 80),
        _ => return Err("an index is at http:// or https://".to_owned()),
    };
    if !index.bytes().all(plain) {
        return Err("the address has a character that must be encoded".to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("every sandbox would see the password in it".to_owned());
    }
    Target::parse(authority.as_bytes(), Some(port))
        .map(|target| target.to_string())
        .map_err(|error| error.to_string())
}

/// What is wrong with a new sandbox's own list.
pub(crate) fn validate(spec: &SandboxSpec) -> Result<(), ProviderError> {
    let refuse = |reason: String| Err(ProviderError::refused(reason));
    if spec.network != Network::Proxy {
        return if spec.allow.is_empty() {
            Ok(())
        } else {
            refuse("a list of allowed hosts is for `--net proxy`".to_owned())
        };
    }
    if spec.allow.len() > MAX_RULES {
        return refuse(format!("at most {MAX_RULES} allowed hosts"));
    }
    for rule in &spec.allow {
        if let Err(error) = rule.parse::<Rule>() {
            return refuse(error.to_string());
        }
    }
    if spec.forwards.iter().any(|f| f.port == EGRESS_PORT) {
        return refuse(format!(
            "port {EGRESS_PORT} inside is the proxy's; serve another"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use provider::Origin;

    use super::*;

    fn proxied() -> SandboxSpec {
        SandboxSpec {
            network: Network::Proxy,
            allow: vec!["example.org".to_owned()],
            ..SandboxSpec::from(Origin::Bare)
        }
    }

    #[test]
    fn a_sandbox_is_granted_the_configuration_s_list_and_its_own() {
        let settings = EgressSettings {
            registries: false,
            allow: vec!["*.example.com".to_owned()],
            private: vec!["10.0.0.0/8".to_owned()],
            pip_index: Some("https://pypi.internal/simple".to_owned()),
            ..EgressSettings::default()
        };
        let grant = settings.grant(&proxied()).expect("a grant");
        assert_eq!(
            grant.allow,
            ["*.example.com", "example.org", "pypi.internal:443"]
        );
        assert_eq!(grant.private, ["10.0.0.0/8"]);
        let with_defaults = EgressSettings::default()
            .grant(&proxied())
            .expect("a grant");
        assert!(with_defaults.allow.contains(&"pypi.org".to_owned()));
        assert_eq!(settings.grant(&SandboxSpec::from(Origin::Bare)), None);
    }

    #[test]
    fn settings_that_cannot_be_meant_are_named() {
        let with = |change: fn(&mut EgressSettings)| {
            let mut settings = EgressSettings::default();
            change(&mut settings);
            settings.check().map_err(|(key, _)| key)
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|s| s.allow.push("https://a".into())), Err("allow"));
        assert_eq!(with(|s| s.private.push("*".into())), Err("private"));
        assert_eq!(
            with(|s| s.upstream = Some(Secret::new("proxy:1"))),
            Err("upstream")
        );
        assert_eq!(
            with(|s| s.npm_registry = Some("https://me:pw@h/".into())),
            Err("npm_registry")
        );
    }

    #[test]
    fn the_tools_are_told_of_the_proxy_and_whom_to_trust() {
        let settings = EgressSettings {
            pip_index: Some("https://pypi.internal/simple".to_owned()),
            ..EgressSettings::default()
        };
        let env = settings.environment(&[(BUNDLE.to_owned(), String::new())]);
        assert_eq!(env["https_proxy"], "http://127.0.0.1:3128");
        assert_eq!(env["PIP_CERT"], "/run/nacre/files/ca-certificates.crt");
        assert_eq!(env["PIP_INDEX_URL"], "https://pypi.internal/simple");
        for name in env.keys() {
            assert!(KEPT_BY_SUDO.contains(name.as_str()), "{name}");
        }
    }

    #[test]
    fn a_list_without_a_proxy_is_refused() {
        let spec = SandboxSpec {
            network: Network::None,
            ..proxied()
        };
        assert!(validate(&spec).is_err());
        assert!(validate(&proxied()).is_ok());
    }
}

//! How this machine itself gets out: a proxy, package indexes of its own. Sandboxes with
//! `--net proxy` use what the configuration names, so what is found is proposed for it.

use std::collections::{BTreeMap, BTreeSet};

use ::egress::policy::{Policy, Rule};
use ::egress::target::Target;
use ::egress::{DEFAULT_RULES, Upstream};
use camino::{Utf8Path, Utf8PathBuf};
use model::Secret;

use super::{Finding, Fix};
use crate::EgressSettings;
use crate::egress::index_rule;

/// What the doctor is told of whoever asks it.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The user's home, where tools keep their settings.
    pub user_home: Option<Utf8PathBuf>,
    /// Variables that name proxies and indexes: see [`Surroundings::VARIABLES`].
    pub variables: BTreeMap<String, String>,
    /// Where settings are written.
    pub file: Utf8PathBuf,
}

impl Surroundings {
    pub const VARIABLES: [&'static str; 8] = [
        "https_proxy",
        "HTTPS_PROXY",
        "http_proxy",
        "HTTP_PROXY",
        "PIP_INDEX_URL",
        "npm_config_registry",
        "NPM_CONFIG_REGISTRY",
        "CARGO_HOME",
    ];

    fn variable(&self, names: &[&str]) -> Option<Found> {
        names.iter().find_map(|name| {
            let value = self
                .variables
                .get(*name)
                .filter(|value| !value.is_empty())?;
            Some(Found {
                value: value.clone(),
                source: (*name).to_owned(),
            })
        })
    }

    fn files(&self, of_the_machine: &[&str], of_the_user: &[&str]) -> Vec<Utf8PathBuf> {
        let user = self.user_home.iter();
        let own = user.flat_map(|home| of_the_user.iter().map(move |name| home.join(name)));
        own.chain(of_the_machine.iter().map(Utf8PathBuf::from))
            .collect()
    }
}

/// A setting of another program.
struct Found {
    value: String,
    source: String,
}

pub(super) fn examine(settings: &EgressSettings, around: &Surroundings) -> Vec<Finding> {
    vec![
        upstream(settings, around),
        index(
            "pip index",
            "pip_index",
            settings.pip_index.as_ref(),
            pip(around),
            around,
        ),
        index(
            "npm registry",
            "npm_registry",
            settings.npm_registry.as_ref(),
            npm(around),
            around,
        ),
        index(
            "cargo index",
            "cargo_index",
            settings.cargo_index.as_ref(),
            cargo(around),
            around,
        ),
        mirrors(settings, around),
    ]
}

fn upstream(settings: &EgressSettings, around: &Surroundings) -> Finding {
    const NAME: &str = "upstream proxy";
    if let Some(Ok(own)) = settings
        .upstream
        .as_ref()
        .map(|u| u.expose().parse::<Upstream>())
    {
        return Finding::ok(NAME, format!("{own}, by `egress.upstream`"));
    }
    let found = around
        .variable(&["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"])
        .or_else(apt_proxy);
    let Some(found) = found else {
        return Finding::info(NAME, "this machine uses none");
    };
    match found.value.parse::<Upstream>() {
        Ok(upstream) => Finding::warning(
            NAME,
            format!("this machine uses {upstream}, by {}", found.source),
            "set `egress.upstream` to it: sandboxes with `--net proxy` go past it",
        )
        .fixed_by(Fix::Setting {
            file: around.file.clone(),
            key: "upstream",
            value: Secret::new(found.value),
        }),
        Err(error) => Finding::warning(
            NAME,
            format!("{} names one that cannot be used: {error}", found.source),
            "set `egress.upstream` to an http:// proxy if sandboxes need one",
        ),
    }
}

fn index(
    name: &'static str,
    key: &'static str,
    set: Option<&String>,
    found: Option<Found>,
    around: &Surroundings,
) -> Finding {
    if let Some(set) = set {
        return Finding::ok(name, format!("{set}, by `egress.{key}`"));
    }
    let Some(found) = found else {
        return Finding::info(name, "the public one");
    };
    match index_rule(&found.value) {
        Ok(rule) if !public().admits_rule(&rule) => Finding::warning(
            name,
            format!("this machine uses {}, by {}", found.value, found.source),
            format!("set `egress.{key}` to it: sandboxes with `--net proxy` use the public one"),
        )
        .fixed_by(Fix::Setting {
            file: around.file.clone(),
            key,
            value: Secret::new(found.value),
        }),
        Ok(_) => Finding::info(name, "the public one"),
        Err(why) => Finding::warning(
            name,
            format!(
                "{} names one that sandboxes cannot be given: {why}",
                found.source
            ),
            format!("set `egress.{key}` to one without a password if sandboxes need it"),
        ),
    }
}

/// apt's own sources go into a base as they are; only the list must know their hosts.
fn mirrors(settings: &EgressSettings, around: &Surroundings) -> Finding {
    const NAME: &str = "apt mirrors";
    let hosts = apt_hosts();
    let listed = Listed::new(settings);
    let missing: Vec<&String> = hosts
        .iter()
        .filter(|rule| !listed.admits_rule(rule))
        .collect();
    if hosts.is_empty() {
        return Finding::info(NAME, "none");
    }
    if missing.len() < hosts.len() {
        let all: Vec<&str> = hosts.iter().map(String::as_str).collect();
        return Finding::info(NAME, all.join(", "));
    }
    let first = missing[0].clone();
    Finding::warning(
        NAME,
        format!("{first} is not on the list of sandboxes with `--net proxy`"),
        "add it to `egress.allow`: apt inside uses it too",
    )
    .fixed_by(Fix::Setting {
        file: around.file.clone(),
        key: "allow",
        value: Secret::new(first),
    })
}

struct Listed(Policy);

fn public() -> Listed {
    Listed::new(&EgressSettings::default())
}

impl Listed {
    fn new(settings: &EgressSettings) -> Self {
        let defaults = DEFAULT_RULES
            .iter()
            .filter(|_| settings.registries)
            .copied();
        let own = settings.allow.iter().map(String::as_str);
        let rules: Vec<Rule> = defaults.chain(own).filter_map(|r| r.parse().ok()).collect();
        Self(Policy::new(rules, Vec::new()))
    }

    fn admits_rule(&self, target: &str) -> bool {
        Target::parse(target.as_bytes(), None).is_ok_and(|target| self.0.admits(&target).is_ok())
    }
}

fn pip(around: &Surroundings) -> Option<Found> {
    let own = [".config/pip/pip.conf", ".pip/pip.conf"];
    around.variable(&["PIP_INDEX_URL"]).or_else(|| {
        first_setting(
            &around.files(&["/etc/pip.conf"], &own),
            &["index-url", "index_url"],
        )
    })
}

fn npm(around: &Surroundings) -> Option<Found> {
    around
        .variable(&["npm_config_registry", "NPM_CONFIG_REGISTRY"])
        .or_else(|| {
            let files = around.files(&["/etc/npmrc", "/usr/etc/npmrc"], &[".npmrc"]);
            first_setting(&files, &["registry"])
        })
}

/// `source.crates-io.replace-with` and the address of what it names.
fn cargo(around: &Surroundings) -> Option<Found> {
    let mut files = around.files(
        &["/.cargo/config.toml"],
        &[".cargo/config.toml", ".cargo/config"],
    );
    if let Some(home) = around.variable(&["CARGO_HOME"]) {
        files.insert(0, Utf8PathBuf::from(home.value).join("config.toml"));
    }
    files.iter().find_map(|file| {
        let text = fs_err::read_to_string(file).ok()?;
        Some(Found {
            value: replacement(&text)?,
            source: file.to_string(),
        })
    })
}

fn replacement(text: &str) -> Option<String> {
    let value = |section: &str, key: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find(|line| line.replace('"', "") == format!("[source.{section}]"))?;
        lines
            .take_while(|line| !line.starts_with('['))
            .find_map(|line| assigned(line, &[key]))
    };
    let source = value("crates-io", "replace-with")?;
    value(&source, "registry")
}

/// The first `key = value` in any of these files.
fn first_setting(files: &[Utf8PathBuf], keys: &[&str]) -> Option<Found> {
    files.iter().find_map(|file| {
        let text = fs_err::read_to_string(file).ok()?;
        let value = text.lines().find_map(|line| assigned(line, keys))?;
        Some(Found {
            value,
            source: file.to_string(),
        })
    })
}

fn assigned(line: &str, keys: &[&str]) -> Option<String> {
    let (key, value) = line.trim().split_once('=')?;
    let value = value.trim().trim_matches(['"', '\'']);
    (keys.contains(&key.trim()) && !value.is_empty()).then(|| value.to_owned())
}

fn apt_proxy() -> Option<Found> {
    let mut files = entries("/etc/apt/apt.conf.d");
    files.push("/etc/apt/apt.conf".into());
    files.iter().find_map(|file| {
        let text = fs_err::read_to_string(file).ok()?;
        let value = text.lines().find_map(apt_proxy_line)?;
        Some(Found {
            value,
            source: file.to_string(),
        })
    })
}

/// `Acquire::http::Proxy "http://proxy:3142";`
fn apt_proxy_line(line: &str) -> Option<String> {
    let rest = ["Acquire::http::Proxy", "Acquire::https::Proxy"]
        .iter()
        .find_map(|key| line.trim().strip_prefix(key))?;
    let value = rest.split('"').nth(1)?.trim_end_matches('/');
    value.starts_with("http://").then(|| value.to_owned())
}

/// The hosts that apt installs from, as rules with a port.
fn apt_hosts() -> BTreeSet<String> {
    let mut files = entries("/etc/apt/sources.list.d");
    files.push("/etc/apt/sources.list".into());
    files
        .iter()
        .filter_map(|file| fs_err::read_to_string(file).ok())
        .flat_map(|text| apt_addresses(&text))
        .collect()
}

fn apt_addresses(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let telling = lines.filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    telling
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
        .filter_map(|address| index_rule(address).ok())
        .collect()
}

fn entries(directory: &str) -> Vec<Utf8PathBuf> {
    let listed = Utf8Path::new(directory).read_dir_utf8().into_iter();
    let mut paths: Vec<Utf8PathBuf> = listed
        .flatten()
        .flatten()
        .map(camino::Utf8DirEntry::into_path)
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingStatus;

    fn around(variables: &[(&str, &str)]) -> Surroundings {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Surroundings {
            variables: variables.iter().map(own).collect(),
            ..Surroundings::default()
        }
    }

    #[test]
    fn a_proxy_of_the_machine_is_proposed_without_showing_its_password() {
        let around = around(&[("https_proxy", "http://me:hunter2@proxy.corp:3128")]);
        let finding = upstream(&EgressSettings::default(), &around);
        assert_eq!(finding.status, FindingStatus::Warning);
        assert_eq!(
            finding.found,
            "this machine uses http://***@proxy.corp:3128, by https_proxy"
        );
        assert!(matches!(
            &finding.fix,
            Some(Fix::Setting {
                key: "upstream",
                ..
            })
        ));
        assert!(!format!("{finding:?}").contains("hunter2"));
    }

    #[test]
    fn an_index_with_a_password_is_not_for_sandboxes() {
        let finding = |address: &str| {
            let around = around(&[("PIP_INDEX_URL", address)]);
            index("pip index", "pip_index", None, pip(&around), &around)
        };
        let own = finding("https://pypi.corp/simple");
        assert!(own.fix.is_some(), "{own:?}");
        let secret = finding("https://me:hunter2@pypi.corp/simple");
        assert!(
            secret.fix.is_none() && !secret.found.contains("hunter2"),
            "{secret:?}"
        );
        assert_eq!(
            finding("https://pypi.org/simple").status,
            FindingStatus::Info
        );
    }

    #[test]
    fn settings_of_other_programs_are_understood() {
        let config = "[source.crates-io]\nreplace-with = 'corp'\n\n[source.\"corp\"]\nregistry = \"sparse+https://crates.corp/\"\n";
        assert_eq!(
            replacement(config).as_deref(),
            Some("sparse+https://crates.corp/")
        );
        assert_eq!(replacement("[net]\noffline = true\n"), None);
        assert_eq!(
            apt_proxy_line("Acquire::http::Proxy \"http://apt:3142/\";").as_deref(),
            Some("http://apt:3142")
        );
        assert_eq!(
            apt_addresses(
                "deb [signed-by=x] http://mirror.corp/debian bookworm main\n# deb http://a\nURIs: https://b.corp/d\n"
            ),
            ["mirror.corp:80", "b.corp:443"]
        );
        assert_eq!(
            assigned("index-url = https://a", &["index-url"]).as_deref(),
            Some("https://a")
        );
    }
}

//! Where every setting comes from: defaults, one TOML file, the environment. Nothing else reads
//! the environment.

mod doors;
mod remote;
mod server;
mod watched;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use camino::Utf8PathBuf;
use figment::providers::{Env, Format as _, Serialized, Toml};
use figment::{Figment, Metadata, Source};
use model::Secret;
use provider_local::EgressSettings;
use provider_local::doctor::Surroundings;
use serde::{Deserialize, Serialize};

pub(crate) use self::doors::Models;
use self::doors::{GitSection, ModelsSection};
pub(crate) use self::remote::{URL_FILE, remote};
pub(crate) use self::server::Server;
use self::server::{PreviewSection, ServerSection, SessionsSection};
pub(crate) use self::watched::{Log, LogFormat, Telemetry};
use self::watched::{LogSection, TelemetrySection};
use crate::error::CommandError;

/// The configuration in effect, and where each of its values is from.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) home: Utf8PathBuf,
    pub(crate) local: provider_local::Config,
    pub(crate) server: Server,
    pub(crate) models: Models,
    pub(crate) git: ::doors::git::Config,
    pub(crate) log: Log,
    /// None: nobody is told.
    pub(crate) telemetry: Option<Telemetry>,
    pub(crate) file: Utf8PathBuf,
    pub(crate) settings: Vec<Setting>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: serde_json::Value,
    pub(crate) source: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    egress: EgressSection,
    git: GitSection,
    local: LocalSection,
    log: LogSection,
    models: ModelsSection,
    preview: PreviewSection,
    server: ServerSection,
    sessions: SessionsSection,
    telemetry: TelemetrySection,
}

/// `[egress]`: what sandboxes with `--net proxy` reach, and how.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EgressSection {
    /// `registries`: package registries and git hosts are on every list. `none`: nothing is.
    default: DefaultList,
    /// On every list: `host`, `host:port`, `*.domain`, `*`.
    allow: Vec<String>,
    /// May be reached, if listed, although its address is not public: `10.1.2.3:8080`,
    /// `git.internal`, `192.168.0.0/16`.
    private: Vec<String>,
    /// A proxy that everything but the private goes through: `http://host:port`. It resolves the
    /// names, so its addresses are not classed here.
    upstream: Option<Unshown>,
    /// The host's own package indexes, for pip, npm and cargo inside; they are on every list.
    pip_index: Option<String>,
    npm_registry: Option<String>,
    cargo_index: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DefaultList {
    Registries,
    None,
}

/// The address of a proxy, whose password is not shown.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Unshown(Secret);

impl Serialize for Unshown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.expose();
        match text.rsplit_once('@') {
            Some((_, host)) => serializer.collect_str(&format_args!("http://***@{host}")),
            None => serializer.serialize_str(text),
        }
    }
}

/// `[local]`: the engine on this machine.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LocalSection {
    first_id: u32,
    ranges: u32,
    pause_to_disk_after: Span,
}

pub(crate) fn load() -> Result<Config, CommandError> {
    let (home, home_source) = home()?;
    let (file, file_source) = file(&home)?;
    let defaults = provider_local::Config::at(home.clone());
    let mut figment = Figment::from(Serialized::defaults(Sections::of(&defaults)));
    if is_there(&file)? {
        figment = figment.merge(Toml::file_exact(&file));
    }
    // `NACRE_HOME`, `NACRE_LOG` and the like have no section and are read elsewhere.
    let sectioned = Env::prefixed(PREFIX).filter(|key| key.as_str().contains("__"));
    let figment = figment.merge(sectioned.split("__"));
    let sections: Sections = figment.extract().map_err(|error| bad_values(&error))?;

    let mut settings = vec![
        Setting {
            key: "home".into(),
            value: home.as_str().into(),
            source: home_source,
        },
        Setting {
            key: "config".into(),
            value: file.as_str().into(),
            source: file_source,
        },
    ];
    for (key, value) in sections.flattened()? {
        let source = figment
            .find_metadata(&key)
            .map_or_else(default_source, |found| source_of(found, &key));
        settings.push(Setting { key, value, source });
    }
    let Sections {
        egress,
        git,
        local,
        log,
        models,
        preview,
        server,
        sessions,
        telemetry,
    } = sections;
    let log = log.read(&settings)?;
    let telemetry = telemetry.read(&settings)?;
    let server = Server::read(server, &preview, sessions, &settings)?;
    let egress = egress.validated(&settings)?;
    let proxy = egress.upstream.as_ref();
    let models = models.read(proxy, &settings)?;
    let git = git.read(proxy, &settings)?;
    let local = provider_local::Config {
        egress,
        ..local.validated(defaults, &settings)?
    };
    Ok(Config {
        home,
        local,
        server,
        models,
        git,
        log,
        telemetry,
        file,
        settings,
    })
}

impl Sections {
    fn of(local: &provider_local::Config) -> Self {
        Self {
            egress: EgressSection {
                default: DefaultList::Registries,
                allow: Vec::new(),
                private: Vec::new(),
                upstream: None,
                pip_index: None,
                npm_registry: None,
                cargo_index: None,
            },
            local: LocalSection {
                first_id: local.first_id,
                ranges: local.ranges,
                pause_to_disk_after: Span(local.to_disk_after),
            },
            git: GitSection::usual(),
            log: LogSection::default(),
            models: ModelsSection::usual(),
            preview: PreviewSection::usual(),
            server: ServerSection::usual(),
            sessions: SessionsSection::usual(),
            telemetry: TelemetrySection::default(),
        }
    }

    /// `section.key` and its value, in the order of their names.
    fn flattened(&self) -> Result<Vec<(String, serde_json::Value)>, CommandError> {
        let serde_json::Value::Object(sections) = serde_json::to_value(self)? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for (section, values) in sections {
            let serde_json::Value::Object(values) = values else {
                continue;
            };
            all.extend(
                values
                    .into_iter()
                    .map(|(key, value)| (format!("{section}.{key}"), value)),
            );
        }
        Ok(all)
    }
}

impl EgressSection {
    fn validated(self, settings: &[Setting]) -> Result<EgressSettings, CommandError> {
        let there = |text: Option<String>| text.filter(|text| !text.is_empty());
        let egress = EgressSettings {
            registries: self.default == DefaultList::Registries,
            allow: self.allow,
            private: self.private,
            upstream: self
                .upstream
                .map(|Unshown(secret)| secret)
                .filter(|secret| !secret.expose().is_empty()),
            pip_index: there(self.pip_index),
            npm_registry: there(self.npm_registry),
            cargo_index: there(self.cargo_index),
        };
        match egress.check() {
            Ok(()) => Ok(egress),
            Err((key, why)) => Err(bad_setting(settings, &format!("egress.{key}"), &why)),
        }
    }
}

fn bad_setting(settings: &[Setting], key: &str, what: &str) -> CommandError {
    let source = settings
        .iter()
        .find(|setting| setting.key == key)
        .map_or("default", |setting| setting.source.as_str());
    CommandError::usage(format!("`{key}` from {source}: {what}"))
}

/// How many ids one sandbox has.
const RANGE: u64 = 65_536;

impl LocalSection {
    fn validated(
        self,
        defaults: provider_local::Config,
        settings: &[Setting],
    ) -> Result<provider_local::Config, CommandError> {
        let bad = |key: &str, what: String| Err(bad_setting(settings, key, &what));
        if u64::from(self.first_id) < RANGE {
            return bad(
                "local.first_id",
                format!(
                    "{} is an id of the host's own users; begin at {RANGE}",
                    self.first_id
                ),
            );
        }
        if self.ranges == 0 {
            return bad(
                "local.ranges",
                "0 ranges leave no room for a sandbox".to_owned(),
            );
        }
        // The last id of all means "none" to the kernel.
        if u64::from(self.first_id) + u64::from(self.ranges) * RANGE > u64::from(u32::MAX) {
            let most = (u64::from(u32::MAX) - u64::from(self.first_id)) / RANGE;
            return bad(
                "local.ranges",
                format!(
                    "from {} there is only room for {most} ranges",
                    self.first_id
                ),
            );
        }
        if self.pause_to_disk_after.0.is_zero() {
            return bad(
                "local.pause_to_disk_after",
                "0s would put every paused sandbox on disk at once".to_owned(),
            );
        }
        Ok(provider_local::Config {
            first_id: self.first_id,
            ranges: self.ranges,
            to_disk_after: self.pause_to_disk_after.0,
            ..defaults
        })
    }
}

const PREFIX: &str = "NACRE_";

fn home() -> Result<(Utf8PathBuf, String), CommandError> {
    if let Some(home) = path_variable("NACRE_HOME")? {
        return Ok((home, "NACRE_HOME".to_owned()));
    }
    if rustix::process::geteuid().is_root() {
        return Ok((Utf8PathBuf::from("/var/lib/nacre"), default_source()));
    }
    let Some(user) = path_variable("HOME")? else {
        return Err(CommandError::usage("there is no HOME to keep state in")
            .hint("set NACRE_HOME to a directory"));
    };
    Ok((user.join(".local/share/nacre"), default_source()))
}

fn file(home: &Utf8PathBuf) -> Result<(Utf8PathBuf, String), CommandError> {
    let Some(file) = path_variable("NACRE_CONFIG")? else {
        return Ok((home.join("nacre.toml"), default_source()));
    };
    // The default file may be absent; one that was asked for may not.
    if !is_there(&file)? {
        return Err(
            CommandError::not_found(format!("there is no file at {file}"))
                .hint("NACRE_CONFIG names it: unset it, or make the file"),
        );
    }
    Ok((file, "NACRE_CONFIG".to_owned()))
}

/// A file that cannot be reached is not the same as none.
fn is_there(file: &Utf8PathBuf) -> Result<bool, CommandError> {
    match file.try_exists() {
        // A home that is no directory: opening it says so better.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(false),
        other => Ok(other.with_context(|| format!("cannot look for {file}"))?),
    }
}

fn path_variable(name: &str) -> Result<Option<Utf8PathBuf>, CommandError> {
    let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    // We start copies of ourselves elsewhere, and they are to find the same place.
    let path = std::path::absolute(PathBuf::from(value))
        .with_context(|| format!("{name} is not a path"))?;
    let path = Utf8PathBuf::from_path_buf(path)
        .map_err(|path| CommandError::usage(format!("{name} is not UTF-8: {}", path.display())))?;
    Ok(Some(path))
}

/// Of whoever runs this.
pub(crate) fn user_home() -> Result<Option<Utf8PathBuf>, CommandError> {
    path_variable("HOME")
}

/// What the doctor is told of this user and their environment.
pub(crate) fn surroundings(config: &Config) -> Result<Surroundings, CommandError> {
    let value = |name: &&str| {
        let value = variable(name)?.into_string().ok()?;
        Some(((*name).to_owned(), value))
    };
    Ok(Surroundings {
        user_home: path_variable("HOME")?,
        variables: Surroundings::VARIABLES.iter().filter_map(value).collect(),
        file: config.file.clone(),
    })
}

pub(crate) fn log_filter() -> Option<String> {
    variable("NACRE_LOG")
        .map(|text| text.to_string_lossy().into_owned())
        .filter(|text| !text.is_empty())
}

/// Where records and logs are, if not in the home: `sqlite:PATH` or `postgres://…`.
pub(crate) fn database(home: &camino::Utf8Path) -> Result<store::Location, CommandError> {
    let given = variable("NACRE_DATABASE_URL").filter(|value| !value.is_empty());
    let Some(given) = given else {
        return Ok(store::Location::File(home.join("nacre.db")));
    };
    let given = given.into_string().unwrap_or_default();
    given.parse().map_err(|error| {
        CommandError::usage(format!("NACRE_DATABASE_URL: {error}"))
            .hint("unset it to keep everything in NACRE_HOME")
    })
}

/// What every S3 client reads: endpoint, region, credentials.
pub(crate) fn s3_settings() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("AWS_"))
        .collect()
}

/// Where somebody may look at a browser.
#[derive(Debug)]
pub(crate) struct Desktop {
    /// What they want it opened by, if it is not the usual.
    pub(crate) browser: Option<String>,
    pub(crate) has_display: bool,
    /// Whose it is, where root works for somebody by sudo: a name and a number.
    pub(crate) owner: Option<(String, u32)>,
}

pub(crate) fn desktop() -> Desktop {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let text = |name| variable(name).and_then(|value| value.into_string().ok());
    let owner = text("SUDO_USER").zip(text("SUDO_UID").and_then(|uid| uid.parse().ok()));
    Desktop {
        owner: owner.filter(|(_, uid)| *uid != 0 && rustix::process::geteuid().is_root()),
        browser: text("BROWSER"),
        has_display: is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"),
    }
}

/// See <https://no-color.org>.
pub(crate) fn no_colour() -> bool {
    variable("NO_COLOR").is_some_and(|value| !value.is_empty())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

fn default_source() -> String {
    "default".to_owned()
}

fn source_of(metadata: &Metadata, key: &str) -> String {
    match &metadata.source {
        Some(Source::File(path)) => path.display().to_string(),
        Some(Source::Code(_)) => default_source(),
        _ => variable_of(key),
    }
}

/// `NACRE_SECTION__KEY`.
fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

fn bad_values(errors: &figment::Error) -> CommandError {
    let lines: Vec<String> = errors
        .clone()
        .into_iter()
        .map(|error| bad_value(&error).trim_end().to_owned())
        .collect();
    CommandError::usage(lines.join("; ")).hint("correct it, or remove it to have the default")
}

fn bad_value(error: &figment::Error) -> String {
    let key = error.path.join(".").to_lowercase();
    let source = error
        .metadata
        .as_ref()
        .map(|metadata| source_of(metadata, &key));
    match (key.is_empty(), source) {
        (false, Some(source)) => format!("`{key}` from {source}: {}", error.kind),
        (true, Some(source)) => format!("{source}: {}", error.kind),
        (false, None) => format!("`{key}`: {}", error.kind),
        (true, None) => error.kind.to_string(),
    }
}

/// A length of time as people write it: `30s`, `10m`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a length of time: write 30s, 10m or 1h30m");
        let signed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
        Duration::try_from(signed).map(Self).map_err(|_| wrong())
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::SignedDuration::try_from(self.0) {
            Ok(signed) => write!(f, "{signed:#}"),
            Err(_) => write!(f, "{}s", self.0.as_secs()),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

//! `[log]` and `[telemetry]`: what a server says of its work, and to whom.

use model::Secret;
use serde::{Deserialize, Serialize};

use super::{Setting, bad_setting, variable};
use crate::error::CommandError;

/// How lines are written, and which.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) filter: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Where spans go.
#[derive(Debug, Clone)]
pub(crate) struct Telemetry {
    pub(crate) endpoint: String,
    pub(crate) headers: Option<Secret>,
}

/// `[log]`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogSection {
    /// `text` for people, `json` for programs: an object a line.
    format: LogFormat,
    /// Which lines: `info`, or `warn,nacre_sessions=debug`. `warn`, if it is not said.
    filter: Option<String>,
}

/// `[telemetry]`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TelemetrySection {
    /// A collector that takes OTLP over HTTP: `http://127.0.0.1:4318`. None is told anything, if it
    /// is not said.
    endpoint: Option<String>,
}

impl LogSection {
    pub(super) fn read(self, settings: &[Setting]) -> Result<Log, CommandError> {
        let filter = self.filter.filter(|text| !text.is_empty());
        if let Some(filter) = &filter
            && let Err(error) = tracing_subscriber::EnvFilter::try_new(filter)
        {
            return Err(bad_setting(settings, "log.filter", &error.to_string()));
        }
        Ok(Log {
            format: self.format,
            filter,
        })
    }
}

impl TelemetrySection {
    /// Where it is not set here, everybody's own names for it count.
    pub(super) fn read(self, settings: &[Setting]) -> Result<Option<Telemetry>, CommandError> {
        let named = |name: &str| {
            let value = variable(name)?.into_string().ok()?;
            (!value.is_empty()).then_some(value)
        };
        let endpoint = self.endpoint.filter(|endpoint| !endpoint.is_empty());
        let Some(endpoint) = endpoint.or_else(|| named("OTEL_EXPORTER_OTLP_ENDPOINT")) else {
            return Ok(None);
        };
        let is_address = ["http://", "https://"].iter().any(|scheme| {
            endpoint
                .strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        });
        if !is_address || endpoint.contains('@') {
            let what = "write http://127.0.0.1:4318, without a user; a key is for OTEL_EXPORTER_OTLP_HEADERS";
            return Err(bad_setting(settings, "telemetry.endpoint", what));
        }
        Ok(Some(Telemetry {
            endpoint,
            headers: named("OTEL_EXPORTER_OTLP_HEADERS").map(Secret::new),
        }))
    }
}

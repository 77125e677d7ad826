//! Log lines: for people, or one JSON object each, with what the spans around them say.

use std::fmt;

use jiff::Timestamp;
use model::{Clock as _, SystemClock};
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::config::{self, Log, LogFormat};
use crate::error::CommandError;
use crate::output;

/// Of a server, whose settings say how it writes; where they cannot be read, the command says so.
pub(crate) fn start_for_server() -> Result<(), CommandError> {
    let log = config::load().map(|config| config.log);
    start(&log.unwrap_or_default())
}

/// Of every other command: reading settings takes longer than some of them.
pub(crate) fn start_for_command() -> Result<(), CommandError> {
    start(&Log::default())
}

fn start(log: &Log) -> Result<(), CommandError> {
    let builder = tracing_subscriber::fmt().with_writer(std::io::stderr);
    // NACRE_LOG is for now, the setting is for always.
    let filter = match config::log_filter() {
        Some(text) => Some(read("NACRE_LOG", &text)?),
        None => log
            .filter
            .as_deref()
            .map(|text| read("log.filter", text))
            .transpose()?,
    };
    match (log.format, filter) {
        // Building a filter takes longer than some whole commands, so only who asks for one pays.
        (LogFormat::Text, None) => builder
            .with_ansi(output::stderr_has_colour())
            .with_max_level(LevelFilter::WARN)
            .init(),
        (LogFormat::Text, Some(filter)) => builder
            .with_ansi(output::stderr_has_colour())
            .with_env_filter(filter)
            .init(),
        (LogFormat::Json, filter) => builder
            .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("warn")))
            .fmt_fields(JsonFields::new())
            .event_format(Lines)
            .init(),
    }
    Ok(())
}

fn read(source: &str, text: &str) -> Result<EnvFilter, CommandError> {
    EnvFilter::try_new(text).map_err(|error| {
        CommandError::usage(format!("{source} is not a log filter: {error}"))
            .hint("write a level, or target=level pairs: NACRE_LOG=debug")
    })
}

/// One object a line: what the line says, and what is said of everything that it belongs to. The
/// nearest counts.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        let mut line = Map::new();
        let spans = context.event_scope().into_iter();
        for span in spans.flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                add(&mut line, &fields.fields);
            }
        }
        let mut said = String::new();
        context.format_fields(Writer::new(&mut said), event)?;
        add(&mut line, &said);
        // Last, so that no field takes their place.
        let now: Timestamp = SystemClock.now();
        line.insert("timestamp".to_owned(), now.to_string().into());
        line.insert("level".to_owned(), about.level().as_str().into());
        line.insert("target".to_owned(), about.target().into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

fn add(line: &mut Map<String, Value>, fields: &str) {
    if let Ok(Value::Object(fields)) = serde_json::from_str(fields) {
        line.extend(fields);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_the_session_and_the_request_that_it_is_about() {
        let written = Written::default();
        let to = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || to.clone())
            .with_env_filter(EnvFilter::new("warn"))
            .fmt_fields(JsonFields::new())
            .event_format(Lines)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let outer = tracing::error_span!("session", session = "ses_1", generation = 2);
            let _outer = outer.entered();
            let inner = tracing::error_span!("work", request_id = "req_1");
            let _inner = inner.entered();
            tracing::warn!(level = "mine", took_ms = 3, "it did not come about");
            tracing::info!("nobody asked");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [line] = &lines[..] else {
            panic!("{text}");
        };
        assert_eq!(line["session"], "ses_1");
        assert_eq!(line["generation"], 2);
        assert_eq!(line["request_id"], "req_1");
        assert_eq!(line["took_ms"], 3);
        assert_eq!(line["message"], "it did not come about");
        assert_eq!(line["level"], "WARN");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }
}

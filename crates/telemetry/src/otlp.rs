//! Spans as OTLP's JSON: <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>.

use model::Timestamp;
use serde_json::{Value as Json, json};

use crate::span::{Moment, Record};
use crate::{Settings, Value};

const FAILED: u8 = 2;

pub(crate) fn document(spans: &[Record], settings: &Settings) -> Json {
    let about = [
        ("service.name", settings.service.clone()),
        ("service.version", settings.version.clone()),
        ("service.instance.id", settings.instance.clone()),
    ];
    let about = about.map(|(key, text)| attribute(key, &Value::from(text)));
    let spans: Vec<Json> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": about },
        "scopeSpans": [{
            "scope": { "name": settings.service, "version": settings.version },
            "spans": spans,
        }],
    }] })
}

fn span(record: &Record) -> Json {
    let mut span = json!({
        "traceId": record.at.id(),
        "spanId": format!("{:016x}", record.at.span),
        "name": record.name,
        "kind": record.kind as u8,
        "startTimeUnixNano": nanos(record.begun),
        "endTimeUnixNano": nanos(record.ended),
        "attributes": attributes(&record.attributes),
        "events": record.moments.iter().map(moment).collect::<Vec<Json>>(),
    });
    if let Some(parent) = record.parent {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(fault) = &record.fault {
        span["status"] = json!({ "code": FAILED, "message": fault });
    }
    span
}

fn moment(moment: &Moment) -> Json {
    json!({
        "timeUnixNano": nanos(moment.at),
        "name": moment.name,
        "attributes": attributes(&moment.attributes),
    })
}

fn attributes(all: &[(&'static str, Value)]) -> Vec<Json> {
    let all = all.iter().map(|(key, value)| attribute(key, value));
    all.collect()
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({ "stringValue": text }),
        // As a string: JSON's own numbers end before 64 bits do.
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Flag(flag) => json!({ "boolValue": flag }),
    };
    json!({ "key": key, "value": value })
}

fn nanos(at: Timestamp) -> String {
    at.as_nanosecond().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_span_is_written_as_collectors_read_it() {
        let at = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let begun = Timestamp::from_nanosecond(1_000_000_001).unwrap();
        let record = Record {
            at: at.parse().unwrap(),
            parent: Some(255),
            kind: Kind::Server,
            name: "GET /healthz".into(),
            begun,
            ended: Timestamp::from_nanosecond(1_000_000_010).unwrap(),
            attributes: vec![("http.response.status_code", Value::Number(500))],
            moments: vec![Moment {
                name: "first output",
                at: begun,
                attributes: vec![("is", Value::Flag(true))],
            }],
            fault: Some("no".to_owned()),
        };
        let expected = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "b7ad6b7169203331",
            "parentSpanId": "00000000000000ff",
            "name": "GET /healthz",
            "kind": 2,
            "startTimeUnixNano": "1000000001",
            "endTimeUnixNano": "1000000010",
            "attributes": [{ "key": "http.response.status_code", "value": { "intValue": "500" } }],
            "events": [{ "timeUnixNano": "1000000001", "name": "first output",
                "attributes": [{ "key": "is", "value": { "boolValue": true } }] }],
            "status": { "code": 2, "message": "no" },
        });
        assert_eq!(span(&record), expected);
    }
}

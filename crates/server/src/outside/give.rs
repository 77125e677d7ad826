//! What a sandbox gets before it is asked anything. Secrets of its session, its repositories and its
//! organisation go into its memory, where env files are made of them, and into no layer, record or
//! log; what an automation was begun by into a file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gateway::{Inside, encode};
use hyper::Method;
use model::session::Place;
use model::{Audit, Id};
use serde_json::{Value, json};
use sessions::{Handle, Spec};
use store::sessions::Record;

use super::Outside;
use super::grants::spelled;

/// A workplace that was told what to become has its tools up.
const PATIENCE: Duration = Duration::from_secs(30);

const CONTEXT: &str = ".nacre/trigger-context.json";

/// An error has no secret in it.
pub(super) async fn all(outside: &Outside, session: &Handle, place: Place) -> Result<(), String> {
    let record = outside.store.load_session(session.session()).await;
    let record = record.map_err(|error| told(&error))?;
    let spec: Spec = serde_json::from_str(&record.spec).map_err(|error| told(&error))?;
    let mut providers = outside.providers.iter();
    let provider = providers.find(|provider| provider.name() == session.provider());
    let provider = provider.ok_or("its provider is not here")?;
    let inside = Inside::new(Arc::clone(provider), place);
    let given = secrets(outside, &record, &spec, &inside).await;
    given.map_err(|error| format!("its secrets did not reach its sandbox: {error}"))?;
    let given = context(&spec, &inside).await;
    given.map_err(|error| format!("what it was begun by did not reach its sandbox: {error}"))
}

fn told(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

async fn context(spec: &Spec, inside: &Inside) -> Result<(), String> {
    let Some(context) = &spec.context else {
        return Ok(());
    };
    let path = format!("/api/files?path={}", encode(CONTEXT));
    let written = inside.read(Method::PUT, &path, context.to_string(), PATIENCE);
    written.await.map(drop).map_err(|error| told(&error))
}

async fn secrets(
    outside: &Outside,
    record: &Record,
    spec: &Spec,
    inside: &Inside,
) -> Result<(), String> {
    let store = &outside.store;
    let urls = spec.boot.repos.iter().map(|repo| &repo.url);
    // What was kept before there was one spelling is found by the one that it was kept by.
    let repos = urls
        .filter(|url| !url.is_empty())
        .flat_map(|url| [spelled(url), url.clone()]);
    let repos: Vec<String> = repos.collect();
    let sealed = store.secrets_for(record.organisation, &repos, record.id);
    let sealed = sealed.await.map_err(|error| told(&error))?;
    if sealed.is_empty() {
        return Ok(());
    }
    let mut values = BTreeMap::new();
    for secret in &sealed {
        let value = outside.vault.open_secret(secret);
        let value = value.map_err(|error| told(&error))?;
        values.insert(secret.about.name.clone(), value.expose().to_owned());
    }
    let names: Vec<&String> = values.keys().collect();
    let line = store::audit::Line {
        id: Id::<Audit>::new(&*outside.clock),
        organisation: record.organisation,
        session: Some(record.id),
        actor: "server".to_owned(),
        action: "secrets.open".to_owned(),
        target: None,
        body: json!({ "names": names, "generation": inside.place().generation.0 }).to_string(),
        at: outside.clock.now(),
    };
    let body = json!({ "values": values });
    let noted = async {
        let mut tx = store.begin().await?;
        tx.record(&line).await?;
        tx.commit().await
    };
    noted.await.map_err(|error| told(&error))?;
    let given = inside.ask::<Value>(Method::POST, "/api/env/values", Some(&body), PATIENCE);
    given.await.map(drop).map_err(|error| told(&error))
}

//! Secrets of a session, its repositories and its organisation: into the memory of its sandbox, where
//! env files are made of them, and into no layer, record or log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gateway::Inside;
use hyper::Method;
use model::session::Place;
use model::{Audit, Id};
use serde_json::{Value, json};
use sessions::{Handle, Spec};

use super::Outside;

/// A workplace that was told what to become has its tools up.
const PATIENCE: Duration = Duration::from_secs(30);

/// An error has no secret in it.
pub(super) async fn secrets(
    outside: &Outside,
    session: &Handle,
    place: Place,
) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let store = &outside.store;
    let record = store.load_session(session.session()).await;
    let record = record.map_err(|error| told(&error))?;
    let spec: Spec = serde_json::from_str(&record.spec).map_err(|error| told(&error))?;
    let repos = spec.boot.repos.iter().map(|repo| repo.url.clone());
    let repos: Vec<String> = repos.filter(|url| !url.is_empty()).collect();
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
    let mut providers = outside.providers.iter();
    let provider = providers.find(|provider| provider.name() == session.provider());
    let provider = provider.ok_or("its provider is not here")?;
    let names: Vec<&String> = values.keys().collect();
    let line = store::audit::Line {
        id: Id::<Audit>::new(&*outside.clock),
        organisation: record.organisation,
        session: Some(record.id),
        actor: "server".to_owned(),
        action: "secrets.open".to_owned(),
        target: None,
        body: json!({ "names": names, "generation": place.generation.0 }).to_string(),
        at: outside.clock.now(),
    };
    let inside = Inside::new(Arc::clone(provider), place);
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

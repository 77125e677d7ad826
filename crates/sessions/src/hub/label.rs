//! How a session's sandboxes are known to a provider, before they are made and after a crash.

use std::collections::BTreeMap;

use model::session::Generation;
use model::{Id, Organisation, Session};
use provider::Sandbox;

pub(crate) const OURS: &str = "nacre.managed";
pub(crate) const OURS_VALUE: &str = "session";
const SESSION: &str = "nacre.session";
const GENERATION: &str = "nacre.generation";
const ORGANISATION: &str = "nacre.organisation";

pub(crate) fn of(session: Id<Session>, generation: Generation) -> BTreeMap<String, String> {
    BTreeMap::from([
        (OURS.to_owned(), OURS_VALUE.to_owned()),
        (SESSION.to_owned(), session.to_string()),
        (GENERATION.to_owned(), generation.0.to_string()),
    ])
}

/// What one is made with: also whose it is, since several databases may share a provider.
pub(crate) fn new(
    organisation: Id<Organisation>,
    session: Id<Session>,
    generation: Generation,
) -> BTreeMap<String, String> {
    let mut labels = of(session, generation);
    labels.insert(ORGANISATION.to_owned(), organisation.to_string());
    labels
}

pub(crate) fn key(session: Id<Session>, generation: Generation) -> String {
    format!("{session}/{}", generation.0)
}

pub(crate) fn session_of(sandbox: &Sandbox) -> Option<Id<Session>> {
    sandbox.labels.get(SESSION)?.parse().ok()
}

pub(crate) fn organisation_of(sandbox: &Sandbox) -> Option<Id<Organisation>> {
    sandbox.labels.get(ORGANISATION)?.parse().ok()
}

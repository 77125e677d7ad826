//! Those who work in a session's sandbox, against the workplace that serves them: real sandboxes, a
//! real agent, one sandbox for many attempts. What aims at the host is `nacre-intruder`'s, and in
//! `nacre-provider-local::it sealed`.

mod bombs;
mod repository;
mod secrets;
mod walk;

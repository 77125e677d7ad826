//! The way from the host to the servers that doors lead to.

use std::time::Duration;

use model::{Redactor, Secret};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// `http://host:port`, or with `user:password@`. The environment's own settings are not read.
    pub proxy: Option<Secret>,
    /// Further certificate authorities, in PEM, beside those that the host trusts.
    pub authorities: Option<String>,
    pub connect_seconds: u64,
    /// How long a server may say nothing at all, before its answer and in the middle of it.
    pub idle_seconds: u64,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            proxy: None,
            authorities: None,
            connect_seconds: 10,
            idle_seconds: 600,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    // Never the address itself: it may hold a password.
    #[error("the doors' proxy is not an address; write it as http://host:port")]
    Proxy,
    #[error("the doors' certificate authorities are not PEM")]
    Authorities,
    #[error("cannot set up the doors' HTTP client")]
    Client(#[source] reqwest::Error),
    #[error(
        "the base URL of the model provider {id} must be an http or https address, without user, \
         query and fragment"
    )]
    BaseUrl { id: String },
    #[error(
        "{id:?} cannot be the name of a model provider: use lower-case letters, digits, - and _"
    )]
    ProviderId { id: String },
    #[error("two model providers are called {id}; give one another name")]
    ProviderTwice { id: String },
}

impl Network {
    pub(crate) fn client(&self) -> Result<reqwest::Client, NetworkError> {
        // Fails when the process has chosen one before, which is as good.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(Duration::from_secs(self.connect_seconds))
            .read_timeout(Duration::from_secs(self.idle_seconds))
            .pool_max_idle_per_host(32)
            .tcp_keepalive(Duration::from_mins(1));
        if let Some(proxy) = &self.proxy {
            let proxy = reqwest::Proxy::all(proxy.expose()).map_err(|_| NetworkError::Proxy)?;
            builder = builder.proxy(proxy);
        }
        if let Some(pem) = &self.authorities {
            let found = reqwest::Certificate::from_pem_bundle(pem.as_bytes());
            let found = found.map_err(|_| NetworkError::Authorities)?;
            builder = builder.tls_certs_merge(found);
        }
        builder.build().map_err(NetworkError::Client)
    }
}

/// Why a request did not get through, in one line, without addresses and secrets.
pub(crate) fn why(error: reqwest::Error, secrets: &Redactor) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(next) = source {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        source = next.source();
    }
    secrets.apply(&text)
}

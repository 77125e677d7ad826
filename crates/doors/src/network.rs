//! The way from the host to the servers that doors lead to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use model::{Redactor, Secret};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
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
    #[error(
        "the API of the forge {host} must be an http or https address, without user, query and \
         fragment"
    )]
    Forge { host: String },
    #[error("two model providers are called {id}; give one another name")]
    ProviderTwice { id: String },
}

impl Network {
    /// To whatever the configuration names.
    pub(crate) fn client(&self) -> Result<reqwest::Client, NetworkError> {
        self.builder()?.build().map_err(NetworkError::Client)
    }

    /// To names that sandboxes choose: only to public addresses, but for those that are listed. What
    /// a proxy looks up is the proxy's to judge.
    pub(crate) fn guarded_client(
        &self,
        listed: Vec<String>,
    ) -> Result<reqwest::Client, NetworkError> {
        let resolver = Arc::new(PublicOnly { listed });
        let builder = self.builder()?.dns_resolver(resolver);
        builder.build().map_err(NetworkError::Client)
    }

    fn builder(&self) -> Result<reqwest::ClientBuilder, NetworkError> {
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
        Ok(builder)
    }
}

/// Names looked up once, and what was found classed before it is dialled.
#[derive(Debug)]
struct PublicOnly {
    /// Without their ports.
    listed: Vec<String>,
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let is_listed = self.listed.contains(&name.to_ascii_lowercase());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found
                .filter(|address| is_listed || is_public(address.ip()))
                .collect();
            if found.is_empty() {
                let why = "its name leads to no public address: list it in `git.hosts`";
                return Err(why.into());
            }
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    egress::address::class(address).is_none() && !egress::address::is_own(address)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_leads_home_is_dialled_only_where_it_is_listed() {
        let found = |listed: &[&str]| {
            let listed = listed.iter().map(|name| (*name).to_owned()).collect();
            let resolver = PublicOnly { listed };
            resolver.resolve("localhost".parse().unwrap())
        };
        assert!(found(&[]).await.is_err());
        assert!(found(&["localhost"]).await.is_ok());
    }

    #[test]
    fn addresses_that_are_not_public_are_told_apart() {
        for private in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1"] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        assert!(is_public("140.82.112.3".parse().unwrap()));
    }
}

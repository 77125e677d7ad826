use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::{Bearer, ClientError};

const CONNECT: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("nacre-client/", env!("CARGO_PKG_VERSION"));

/// One server, and the right to use it. Copies share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    base: Url,
    headers: HeaderMap,
}

impl Client {
    /// For the server at an `http` or `https` address. The token is only ever sent there: redirects
    /// are not followed, and what is on this machine is not reached through a proxy.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "whoever gives a token away keeps none"
    )]
    pub fn new(url: &str, bearer: Bearer) -> Result<Self, ClientError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(ClientError::NoCryptography);
        }
        let base = base(url)?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer.header()?);
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let mut http = reqwest::Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT)
            .default_headers(headers.clone());
        if is_here(&base) {
            http = http.no_proxy();
        }
        if let Some(host) = base.host_str().filter(|host| is_local_name(host)) {
            http = http.resolve_to_addrs(host, &local_addresses(port(&base)));
        }
        let http = http
            .build()
            .map_err(|error| ClientError::Setup(error.into()))?;
        Ok(Self {
            inner: Arc::new(Inner {
                http,
                base,
                headers,
            }),
        })
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        self.inner.base.as_str()
    }

    /// What no other call here asks for: a path below the server's address, as in `v1/billing`.
    pub async fn get_json<A: DeserializeOwned>(&self, path: &[&str]) -> Result<A, ClientError> {
        self.call(Method::GET, path).answer().await
    }

    /// As [`Client::get_json`], with something to say. It has a key, so that it happens once.
    pub async fn post_json<B: Serialize + Sync, A: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &B,
    ) -> Result<A, ClientError> {
        self.call(Method::POST, path)
            .json(body)
            .once()
            .answer()
            .await
    }

    pub(crate) fn call(&self, method: Method, path: &[&str]) -> Call<'_> {
        Call::new(self, method, path)
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.inner.http
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.inner.headers
    }

    /// Below the server's address. A name that would lead elsewhere is no name.
    pub(crate) fn at(&self, path: &[&str]) -> Result<Url, ClientError> {
        let mut url = self.inner.base.clone();
        for name in path {
            if matches!(*name, "" | "." | "..") {
                return Err(ClientError::BadName((*name).to_owned()));
            }
        }
        url.path_segments_mut()
            .map_err(|()| ClientError::BadUrl(self.url().to_owned()))?
            .pop_if_empty()
            .extend(path);
        Ok(url)
    }
}

fn base(url: &str) -> Result<Url, ClientError> {
    let bad = || ClientError::BadUrl(url.to_owned());
    let mut base = Url::parse(url).map_err(|_| bad())?;
    let is_web = matches!(base.scheme(), "http" | "https") && base.has_host();
    // A password in an address would be shown wherever the address is.
    if !is_web || !base.username().is_empty() || base.password().is_some() {
        return Err(ClientError::BadUrl(base.host_str().map_or_else(
            || "it".to_owned(),
            |host| format!("{}://{host}", base.scheme()),
        )));
    }
    base.set_query(None);
    base.set_fragment(None);
    Ok(base)
}

pub(crate) fn port(url: &Url) -> u16 {
    url.port_or_known_default().unwrap_or(80)
}

fn is_here(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.map_or_else(|_| is_local_name(host), |ip| ip.is_loopback())
}

/// These are this machine by definition, and not every resolver knows it.
pub(crate) fn is_local_name(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

pub(crate) fn local_addresses(port: u16) -> [SocketAddr; 2] {
    [
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(url: &str) -> Result<Client, ClientError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::new(url, Bearer::new("nac_x"))
    }

    #[test]
    fn an_address_is_http_and_has_no_password() {
        assert!(client("http://127.0.0.1:7070").is_ok());
        for bad in ["", "nacre", "ftp://a", "unix:/x", "http://"] {
            assert!(client(bad).is_err(), "{bad}");
        }
        let error = client("https://me:hunter2@host/").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn a_client_that_is_printed_keeps_its_token() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::new("http://h", Bearer::new("nac_very_secret")).unwrap();
        assert!(!format!("{client:?}").contains("secret"));
    }

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        let client = client("http://h/below/").unwrap();
        let at = |id: &str| client.at(&["v1", "sessions", id]);
        assert_eq!(
            at("a/../b?c#d").unwrap().as_str(),
            "http://h/below/v1/sessions/a%2F..%2Fb%3Fc%23d"
        );
        for bad in ["", ".", ".."] {
            assert!(at(bad).is_err());
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        let here = |url: &str| is_here(&Url::parse(url).unwrap());
        assert!(here("http://127.0.0.1:1") && here("http://[::1]:1"));
        assert!(here("http://localhost") && here("http://nacre.localhost:7070"));
        assert!(!here("http://localhost.example.com") && !here("http://10.0.0.1"));
    }
}

//! An app of a forge in the place of a token: it signs for itself, and gets tokens that are good for
//! an hour and for one repository.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hyper::{Method, StatusCode};
use model::{Clock, Secret, SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{At, ForgeError, Forges, Repository, answer};

/// What forges take at most is ten minutes, and their clocks differ from ours.
const SIGNED_FOR: SignedDuration = SignedDuration::from_mins(8);
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);
/// A token is not used any more so long before its end: a clone takes time.
const BEFORE: SignedDuration = SignedDuration::from_mins(5);
/// Tokens that are kept; more and the rest is asked for anew.
const KEPT: usize = 1000;

/// As an organisation keeps it, in the place of a token for a host.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    #[serde(rename = "app_id")]
    id: u64,
    /// Where it is installed; asked for by the repository, if it is not said.
    #[serde(default)]
    installation_id: Option<u64>,
    /// In PEM, as the forge gives it out.
    private_key: Secret,
}

impl App {
    /// None where the value is a token. An error has nothing of the value in it.
    pub fn read(value: &Secret) -> Option<Result<Self, &'static str>> {
        let text = value.expose().trim();
        text.starts_with('{').then(|| {
            serde_json::from_str(text).map_err(
                |_| "an app is {\"app_id\": 1, \"installation_id\": 2, \"private_key\": \"…\"}",
            )
        })
    }

    /// What it shows to be let in as itself.
    fn sign(&self, now: Timestamp) -> Result<Secret, &'static str> {
        let key = read_key(&self.private_key)?;
        let second = |by: SignedDuration| now.checked_add(by).unwrap_or(now).as_second();
        let head = json!({ "alg": "RS256", "typ": "JWT" });
        let claims = json!({
            "iat": second(-CLOCKS_DIFFER), "exp": second(SIGNED_FOR), "iss": self.id.to_string(),
        });
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&head), encode(&claims));
        let mut signature = vec![0; key.public().modulus_len()];
        let random = SystemRandom::new();
        key.sign(
            &RSA_PKCS1_SHA256,
            &random,
            signed.as_bytes(),
            &mut signature,
        )
        .map_err(|_| "the app's private key does not sign")?;
        let signature = URL_SAFE_NO_PAD.encode(signature);
        Ok(Secret::new(format!("{signed}.{signature}")))
    }
}

fn read_key(pem: &Secret) -> Result<RsaKeyPair, &'static str> {
    const WRONG: &str = "the app's private key is no RSA key in PEM";
    let text = pem.expose();
    let lines = text.lines().map(str::trim);
    let body: String = lines.filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(body).map_err(|_| WRONG)?;
    let read = if text.contains("BEGIN RSA PRIVATE KEY") {
        RsaKeyPair::from_der(&der)
    } else {
        RsaKeyPair::from_pkcs8(&der)
    };
    read.map_err(|_| WRONG)
}

/// Tokens that apps got, until shortly before their end.
pub struct Apps {
    clock: Arc<dyn Clock>,
    kept: Mutex<HashMap<Key, Kept>>,
}

/// Whoever has not the private key gets nothing of what its owner got.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    host: String,
    repo: String,
    app: Vec<u8>,
}

struct Kept {
    token: Secret,
    until: Timestamp,
}

impl Apps {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            kept: Mutex::default(),
        }
    }

    /// For one repository, which is without its `.git`.
    pub async fn token(
        &self,
        forges: &Forges,
        app: &App,
        host: &str,
        repo: &str,
    ) -> Result<Secret, ForgeError> {
        let secret = format!("{} {}", app.id, app.private_key.expose());
        let key = Key {
            host: host.to_owned(),
            repo: repo.to_lowercase(),
            app: digest(&SHA256, secret.as_bytes()).as_ref().to_vec(),
        };
        let now = self.clock.now();
        if let Some(kept) = self.lock().get(&key)
            && kept.until > now
        {
            return Ok(kept.token.clone());
        }
        let (token, until) = forges.installation_token(app, host, repo, now).await?;
        let mut all = self.lock();
        all.retain(|_, kept| kept.until > now);
        if all.len() < KEPT {
            let token = token.clone();
            all.insert(key, Kept { token, until });
        }
        Ok(token)
    }

    /// A host did not take it: the next is a new one. Whether there was one.
    pub fn forget(&self, host: &str, repo: &str) -> bool {
        let repo = repo.to_lowercase();
        let mut all = self.lock();
        let before = all.len();
        all.retain(|key, _| key.host != host || key.repo != repo);
        all.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apps").finish_non_exhaustive()
    }
}

impl Forges {
    /// Where an app is installed that may do something to the repository.
    async fn installation(&self, at: &At<'_>) -> Result<u64, ForgeError> {
        let said = self.ask(at, Method::GET, "/installation", None).await?;
        if said.status != StatusCode::OK {
            return Err(answer::error(at, &said));
        }
        said.body["id"].as_u64().ok_or_else(|| ForgeError::Refused {
            host: at.host.to_owned(),
            said: "it does not say where the app is installed".to_owned(),
        })
    }

    async fn installation_token(
        &self,
        app: &App,
        host: &str,
        repo: &str,
        now: Timestamp,
    ) -> Result<(Secret, Timestamp), ForgeError> {
        let refused = |said: &str| ForgeError::Refused {
            host: host.to_owned(),
            said: said.to_owned(),
        };
        let signed = app.sign(now).map_err(refused)?;
        let at = self.at(Repository {
            host,
            name: repo,
            token: &signed,
        })?;
        let installation = match app.installation_id {
            Some(id) => id,
            None => self.installation(&at).await?,
        };
        let (_, name) = repo.split_once('/').ok_or(ForgeError::NotARepository)?;
        let path = format!("/app/installations/{installation}/access_tokens");
        let body = json!({ "repositories": [name] });
        let said = self.ask_api(&at, Method::POST, &path, Some(&body)).await?;
        if said.status != StatusCode::CREATED {
            return Err(answer::error(&at, &said));
        }
        let token = said.body["token"]
            .as_str()
            .filter(|token| !token.is_empty());
        let until = said.body["expires_at"].as_str();
        let until = until.and_then(|text| text.parse::<Timestamp>().ok());
        let (Some(token), Some(until)) = (token, until) else {
            return Err(refused("it gives the app no token"));
        };
        Ok((Secret::new(token), until.checked_sub(BEFORE).unwrap_or(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_no_app_and_half_an_app_is_an_error_without_its_key() {
        assert!(App::read(&Secret::new("ghp_1234")).is_none());
        let half = Secret::new(r#"{"app_id": 1, "key": "hush"}"#);
        let error = App::read(&half).unwrap().unwrap_err();
        assert!(!error.contains("hush"));
        let whole = Secret::new(r#"{"app_id": 1, "private_key": "hush"}"#);
        let app = App::read(&whole).unwrap().unwrap();
        assert!(!format!("{app:?}").contains("hush"));
        assert!(app.sign(Timestamp::UNIX_EPOCH).is_err());
    }
}

//! Who sees previews: members of the session's organisation, by a code that a page of ours opens
//! once, and whoever has a link that was shared.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway::preview::{Access, Address, Admitted, Credential, NewCookie, Refusal, Target};
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::{Clock, Id, Organisation, Secret, SignedDuration, Timestamp, User};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use store::Store;
use store::accounts::{Role, TokenHash};
use store::logins::Login;

use crate::rate::Rate;
use crate::vault::Vault;
use crate::vault::tokens::{self, Kind};

/// How long a browser sees a preview without being let in anew.
const LASTS: Duration = Duration::from_hours(12);
/// A link that a page of ours opens is opened at once.
const CODE: SignedDuration = SignedDuration::from_mins(1);
/// Who has left an organisation sees its previews for so long.
const FRESH: SignedDuration = SignedDuration::from_secs(2);
const REMEMBERED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Admission {
    store: Store,
    vault: Arc<Vault>,
    clock: Arc<dyn Clock>,
    rate: Rate,
    seen: Mutex<HashMap<(Address, Login), Seen>>,
}

/// Somebody was let in.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Timestamp,
    role: Role,
}

/// What a cookie says: who, which preview, until when. It opens nothing else.
#[derive(Debug, Serialize, Deserialize)]
struct Pass {
    user: Id<User>,
    org: Id<Organisation>,
    at: String,
    exp: i64,
}

impl Admission {
    pub(crate) fn new(store: Store, vault: Arc<Vault>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            vault,
            clock,
            rate: Rate::new(),
            seen: Mutex::default(),
        }
    }

    /// A code that lets one browser in, once, at this very address.
    pub(crate) async fn code(
        &self,
        login: Login,
        to: Address,
    ) -> Result<(Secret, Timestamp), store::Error> {
        let code = tokens::make(Kind::Code).map_err(|_| store::Error::Closed)?;
        let now = self.clock.now();
        let until = now.checked_add(CODE).unwrap_or(Timestamp::MAX);
        let mut tx = self.store.begin().await?;
        tx.create_login(&hash(&code, to), login, now, until).await?;
        tx.commit().await?;
        Ok((code, until))
    }

    async fn by_code(&self, to: Address, code: &str) -> Result<Admitted, Refusal> {
        if !tokens::is_well_formed(Kind::Code, code) {
            return Err(Refusal::Unknown);
        }
        let now = self.clock.now();
        let code = Secret::new(code.to_owned());
        let taken = async {
            let mut tx = self.store.begin().await?;
            let login = tx.take_login(&hash(&code, to), now).await?;
            tx.commit().await?;
            Ok::<_, store::Error>(login)
        };
        let login = taken.await.map_err(unavailable)?.ok_or(Refusal::Unknown)?;
        let role = self.may_see(to, login).await?;
        let lasts = i64::try_from(LASTS.as_secs()).unwrap_or(0);
        let pass = Pass {
            user: login.user,
            org: login.organisation,
            at: to.to_string(),
            exp: now.as_second() + lasts,
        };
        Ok(Admitted {
            user: login.user.to_string(),
            wakes: wakes(role),
            cookie: Some(NewCookie {
                value: self.sign(&pass),
                lasts: LASTS,
            }),
        })
    }

    async fn by_pass(&self, to: Address, cookie: &str) -> Result<Admitted, Refusal> {
        let pass = self.verify(cookie).ok_or(Refusal::Unknown)?;
        if pass.at != to.to_string() || pass.exp <= self.clock.now().as_second() {
            return Err(Refusal::Unknown);
        }
        // They may have left since, or look only.
        let login = Login {
            organisation: pass.org,
            user: pass.user,
        };
        let role = if let Some(role) = self.was_let_in(to, login) {
            role
        } else {
            let role = self.may_see(to, login).await?;
            self.let_in(to, login, role);
            role
        };
        Ok(Admitted {
            user: pass.user.to_string(),
            wakes: wakes(role),
            cookie: None,
        })
    }

    /// A page asks for a hundred files at once, and its reader is the same for all of them.
    fn was_let_in(&self, to: Address, login: Login) -> Option<Role> {
        let seen = self.seen.lock().expect("no holder of this lock panics");
        let seen = seen.get(&(to, login)).copied()?;
        let is_fresh = self.clock.now().duration_since(seen.at) < FRESH;
        is_fresh.then_some(seen.role)
    }

    fn let_in(&self, to: Address, login: Login, role: Role) {
        let at = self.clock.now();
        let mut seen = self.seen.lock().expect("no holder of this lock panics");
        if seen.len() >= REMEMBERED {
            seen.retain(|_, seen| at.duration_since(seen.at) < FRESH);
        }
        if seen.len() < REMEMBERED {
            seen.insert((to, login), Seen { at, role });
        }
    }

    /// Who may be here has changed: everybody is looked up again.
    pub(crate) fn forget(&self) {
        self.seen
            .lock()
            .expect("no holder of this lock panics")
            .clear();
    }

    /// The link itself is the cookie, so that it ends when the link does.
    async fn by_share(&self, to: Address, link: &str, anew: bool) -> Result<Admitted, Refusal> {
        if !tokens::is_well_formed(Kind::Share, link) {
            return Err(Refusal::Unknown);
        }
        let now = self.clock.now();
        let hash = TokenHash::of(&Secret::new(link.to_owned()));
        let found = self.store.find_share(&hash, now).await;
        let share = found.map_err(unavailable)?.ok_or(Refusal::Unknown)?;
        if share.session != to.session || to.target != Target::Port(share.port) {
            return Err(Refusal::Unknown);
        }
        let left = share.expires_at.duration_since(now);
        let left = Duration::try_from(left).unwrap_or_default();
        Ok(Admitted {
            user: format!("share:{}", share.id),
            // A member gave it away, to be seen.
            wakes: true,
            cookie: anew.then(|| NewCookie {
                value: link.to_owned(),
                lasts: left,
            }),
        })
    }

    /// Members of the session's organisation; those who may only look, what only shows.
    async fn may_see(&self, to: Address, login: Login) -> Result<Role, Refusal> {
        let found = self.store.find_session(to.session).await;
        let found = found.map_err(unavailable)?;
        let is_its = found.is_some_and(|session| session.organisation == login.organisation);
        let role = self.store.find_role(login.organisation, login.user).await;
        let role = role.map_err(unavailable)?.ok_or(Refusal::Unknown)?;
        let may = match role {
            Role::Owner | Role::Member => is_its,
            Role::Viewer => is_its && matches!(to.target, Target::Port(_) | Target::Exposed),
        };
        may.then_some(role).ok_or(Refusal::Unknown)
    }

    fn sign(&self, pass: &Pass) -> String {
        let payload = serde_json::to_vec(pass).unwrap_or_default();
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let signature = self.mac(&payload).finalize().into_bytes();
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn verify(&self, cookie: &str) -> Option<Pass> {
        let (payload, signature) = cookie.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.mac(payload).verify_slice(&signature).ok()?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    fn mac(&self, payload: &str) -> Hmac<Sha256> {
        let key = self.vault.server_key("preview");
        Hmac::new_from_slice(key.expose().as_bytes())
            .expect("HMAC takes a key of any length")
            .chain_update(payload)
    }
}

#[async_trait]
impl Access for Admission {
    async fn admit(&self, to: Address, by: &Credential, from: IpAddr) -> Result<Admitted, Refusal> {
        // Both: a stranger bars nobody else from a session, nor themselves from another.
        let from = format!("{from} {}", to.session);
        let (Credential::Cookie(brought) | Credential::Code(brought) | Credential::Share(brought)) =
            by;
        let may = self.rate.may_try(&from, brought);
        may.map_err(|_| Refusal::TooMany)?;
        let admitted = match by {
            Credential::Cookie(cookie) if cookie.starts_with(Kind::Share.prefix()) => {
                self.by_share(to, cookie, false).await
            }
            Credential::Cookie(cookie) => self.by_pass(to, cookie).await,
            Credential::Code(code) => self.by_code(to, code).await,
            Credential::Share(link) => self.by_share(to, link, true).await,
        };
        if matches!(admitted, Err(Refusal::Unknown)) {
            let guessed = self.rate.failed(&from);
            guessed.map_err(|_| Refusal::TooMany)?;
        }
        if let Ok(admitted) = &admitted {
            let kept = admitted.cookie.as_ref().map(|cookie| &*cookie.value);
            self.rate.let_in(kept.unwrap_or(brought));
        }
        admitted
    }
}

/// Viewers look, and wake nobody.
fn wakes(role: Role) -> bool {
    matches!(role, Role::Owner | Role::Member)
}

/// Of one address, and not that of a code that signs in: one is worthless in another's place.
fn hash(code: &Secret, to: Address) -> TokenHash {
    TokenHash::of(&Secret::new(format!("preview {to} {}", code.expose())))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what `map_err` hands over"
)]
fn unavailable(error: store::Error) -> Refusal {
    tracing::error!(%error, "who may see a preview cannot be looked up");
    Refusal::Unavailable
}

//! Who asks. Every route that belongs to somebody takes a [`Caller`]; there is no other way to learn
//! of an organisation.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use model::{Id, Organisation, Secret, SignedDuration, Timestamp, Token, User};
use store::accounts::{Role, TokenHash};
use wire::keys::user;
use wire::v1;

use crate::app::App;
use crate::problem::{Answer, Problem};
use crate::vault::tokens::{self, Kind};
use crate::{Address, cookie};

/// Between two times that a token's use is written down.
const NOTED_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// Longer is no token.
const LONGEST: usize = 4096;

/// Somebody who was let in, and as what.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) organisation: Id<Organisation>,
    /// None: a service.
    pub(crate) user: Option<Id<User>>,
    pub(crate) role: Role,
    pub(crate) token: Option<Id<Token>>,
}

impl Caller {
    /// For the audit.
    pub(crate) fn actor(&self) -> String {
        match (self.user, self.token) {
            (Some(user), _) => user.to_string(),
            (None, Some(token)) => token.to_string(),
            (None, None) => "nobody".to_owned(),
        }
    }

    /// Viewers look, and change nothing.
    pub(crate) fn may_change(&self) -> Answer<()> {
        match self.role {
            Role::Owner | Role::Member => Ok(()),
            Role::Viewer => Err(Problem::forbidden(
                "viewers change nothing: ask an owner for another role",
            )),
        }
    }

    pub(crate) fn must_own(&self) -> Answer<()> {
        match self.role {
            Role::Owner => Ok(()),
            Role::Member | Role::Viewer => Err(Problem::forbidden(
                "only owners of the organisation may do that",
            )),
        }
    }

    pub(crate) fn shown_role(&self) -> v1::Role {
        shown_role(self.role)
    }

    /// The same person in another organisation of theirs, as what they are there. One that they do
    /// not belong to is not there.
    pub(crate) async fn in_organisation(&self, app: &App, id: &str) -> Answer<Self> {
        let missing = || Problem::not_found("organisation");
        let organisation: Id<Organisation> = id.parse().map_err(|_| missing())?;
        if organisation == self.organisation {
            return Ok(self.clone());
        }
        let user = self.user.ok_or_else(missing)?;
        let there = member(app, organisation, user).await?;
        there.ok_or_else(missing)
    }
}

pub(crate) fn shown_role(role: Role) -> v1::Role {
    match role {
        Role::Owner => v1::Role::Owner,
        Role::Member => v1::Role::Member,
        Role::Viewer => v1::Role::Viewer,
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Answer<Self> {
        // Asked before this one, for the same request.
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let from = peer(parts).to_string();
        let (caller, brought) = match bearer(&parts.headers) {
            Some(token) if token.expose().starts_with(Kind::Token.prefix()) => {
                // What is none is told from a token without asking the store.
                let caller = if tokens::is_well_formed(Kind::Token, token.expose()) {
                    app.rate.may_try(&from, token.expose())?;
                    by_token(app, &token).await?
                } else {
                    None
                };
                (caller, Some(token))
            }
            // It is asked for nothing that is not signed by us.
            Some(token) => (by_claims(app, &token).await?, None),
            None if may_come_by_cookie(parts, &app.parts.address) => {
                let cookie = cookie::read(&parts.headers);
                if let Some(cookie) = &cookie {
                    app.rate.may_try(&from, cookie.expose())?;
                }
                (by_cookie(app, &parts.headers).await?, cookie)
            }
            None => (None, None),
        };
        let Some(caller) = caller else {
            app.rate.failed(&from)?;
            return Err(Problem::unauthorised());
        };
        if let Some(brought) = brought {
            app.rate.let_in(brought.expose());
        }
        app.rate.take(&caller.actor())?;
        Ok(caller)
    }
}

/// One header, and nothing else in it.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() || value.len() > LONGEST {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    is_bearer.then(|| Secret::new(token.to_owned()))
}

async fn by_token(app: &App, token: &Secret) -> Answer<Option<Caller>> {
    let now = app.now();
    let found = app.store().find_token(&TokenHash::of(token), now).await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let role = match found.user {
        Some(user) => app.store().find_role(found.organisation, user).await?,
        // A service does what its organisation's members do.
        None => Some(Role::Member),
    };
    let Some(role) = role else {
        return Ok(None);
    };
    if is_to_be_noted(found.last_used_at, now) {
        let mut tx = app.store().begin().await?;
        tx.token_was_used(found.id, now).await?;
        tx.commit().await?;
    }
    Ok(Some(Caller {
        organisation: found.organisation,
        user: found.user,
        role,
        token: Some(found.id),
    }))
}

/// A short-lived token of somebody who is signed in.
async fn by_claims(app: &App, token: &Secret) -> Answer<Option<Caller>> {
    let seconds = u64::try_from(app.now().as_second()).unwrap_or(0);
    let Ok(claims) = user::verify(token.expose(), &app.parts.vault.user_key(), seconds) else {
        return Ok(None);
    };
    let (Ok(user), Ok(organisation)) = (claims.sub.parse(), claims.org.parse()) else {
        return Ok(None);
    };
    member(app, organisation, user).await
}

/// A browser that is signed in.
pub(crate) async fn by_cookie(app: &App, headers: &HeaderMap) -> Answer<Option<Caller>> {
    let Some(secret) = cookie::read(headers) else {
        return Ok(None);
    };
    let now = app.now();
    let hash = TokenHash::of(&secret);
    let Some(found) = app.store().find_browser_session(&hash, now).await? else {
        return Ok(None);
    };
    if is_to_be_noted(Some(found.last_used_at), now) {
        let mut tx = app.store().begin().await?;
        tx.browser_session_was_used(&hash, now).await?;
        tx.commit().await?;
    }
    member(app, found.organisation, found.user).await
}

/// Cookies come along with whatever a page asks for. So they only let look, and open sockets for
/// pages of ours; what changes something wants the header.
fn may_come_by_cookie(parts: &Parts, address: &Address) -> bool {
    let is_look = matches!(parts.method, Method::GET | Method::HEAD);
    let is_socket = parts.headers.contains_key(header::UPGRADE);
    let names_origin = parts.headers.contains_key(header::ORIGIN);
    let is_ours = cookie::is_from_our_page(&parts.headers, address);
    // A preview is of the same site, and not of the same origin; browsers say which it was.
    let site = parts.headers.get("sec-fetch-site");
    let is_near = site.is_none_or(|site| site == "same-origin" || site == "none");
    is_look && is_near && (is_ours || (!is_socket && !names_origin))
}

async fn member(
    app: &App,
    organisation: Id<Organisation>,
    user: Id<User>,
) -> Answer<Option<Caller>> {
    let role = app.store().find_role(organisation, user).await?;
    Ok(role.map(|role| Caller {
        organisation,
        user: Some(user),
        role,
        token: None,
    }))
}

fn is_to_be_noted(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| now.duration_since(last) >= NOTED_EVERY)
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl FromRequestParts<App> for Peer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Answer<Self> {
        Ok(Self(peer(parts)))
    }
}

/// Who is connected, as far as the connection tells.
pub(crate) fn peer(parts: &Parts) -> IpAddr {
    let address = parts.extensions.get::<SocketAddr>();
    address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SocketAddr::ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn one_bearer_and_nothing_else_is_read() {
        let token = bearer(&with(&["Bearer nac_1"])).unwrap();
        assert_eq!(token.expose(), "nac_1");
        assert!(bearer(&with(&["bearer nac_1"])).is_some());
        for wrong in [
            &[][..],
            &["nac_1"],
            &["Basic nac_1"],
            &["Bearer "],
            &["Bearer a", "Bearer b"],
        ] {
            assert!(bearer(&with(wrong)).is_none(), "{wrong:?}");
        }
        let long = format!("Bearer {}", "a".repeat(LONGEST));
        assert!(bearer(&with(&[&long])).is_none());
    }
}

//! Whether those who are connected may still be here: a socket outlives the request that opened it,
//! and is not to outlive the right to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gateway::Leave;
use model::{Id, Organisation, Token, User};
use store::accounts::Role;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::auth::Caller;

/// Between two looks: another process may have changed who may be here.
const EVERY: Duration = Duration::from_secs(15);

/// Everybody who has a socket open, each once.
#[derive(Debug, Default)]
pub(crate) struct Guests(Mutex<HashMap<Guest, Leave>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Guest {
    organisation: Id<Organisation>,
    user: Option<Id<User>>,
    token: Option<Id<Token>>,
    /// One whose role changed comes again, as what they are now.
    role: Role,
}

impl Guests {
    /// To be held for as long as the connection is.
    pub(crate) fn enter(&self, caller: &Caller) -> Leave {
        let guest = Guest {
            organisation: caller.organisation,
            user: caller.user,
            token: caller.token,
            role: caller.role,
        };
        Arc::clone(self.lock().entry(guest).or_default())
    }

    /// Sends away those who may not be here any more.
    pub(crate) async fn look(&self, app: &App) {
        let there: Vec<Guest> = {
            let mut all = self.lock();
            // Nobody holds it but the list.
            all.retain(|_, leave| Arc::strong_count(leave) > 1);
            all.keys().copied().collect()
        };
        for guest in there {
            match may_stay(app, guest).await {
                Ok(true) => {}
                Ok(false) => {
                    if let Some(leave) = self.lock().remove(&guest) {
                        leave.cancel();
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "who is connected cannot be looked up");
                    return;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Guest, Leave>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) async fn keep(app: &App, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(EVERY) => app.guests().look(app).await,
        }
    }
}

async fn may_stay(app: &App, guest: Guest) -> Result<bool, store::Error> {
    if let Some(token) = guest.token {
        let token = match app.store().load_token(token).await {
            Err(store::Error::NotFound(_)) => return Ok(false),
            token => token?,
        };
        let is_over = token.expires_at.is_some_and(|at| at <= app.now());
        if token.revoked_at.is_some() || is_over {
            return Ok(false);
        }
    }
    let Some(user) = guest.user else {
        return Ok(true);
    };
    let role = app.store().find_role(guest.organisation, user).await?;
    Ok(role == Some(guest.role))
}

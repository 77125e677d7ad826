//! What a server finds and leaves in its home: a lock, a name, the first owner's token.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::Context as _;
use camino::{Utf8Path, Utf8PathBuf};
use fs_err::{File, OpenOptions};
use model::{Clock, Id, Secret};
use rustix::fs::{FlockOperation, flock};
use store::Store;
use store::accounts::{NewToken, Role, TokenHash, UserRecord};

use crate::error::{CommandError, Kind};

/// Whoever has it is the only server of the home, and may take up what the last one had at once.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
    owner: String,
}

impl Lock {
    pub(super) fn take(home: &Utf8Path) -> Result<Self, CommandError> {
        fs_err::create_dir_all(home)?;
        let path = home.join("server.lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(CommandError::new(
                Kind::Refused,
                format!("another nacre serves {home}"),
            )
            .hint("use that one, or name another home by NACRE_HOME"));
        }
        Ok(Self {
            _file: file,
            owner: format!("server of {home}"),
        })
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }
}

/// On a first start: an organisation, its owner, and a token in a file that only they can read.
/// Killed anywhere, the next start goes on.
pub(super) async fn first_owner(
    home: &Utf8Path,
    store: &Store,
    clock: &dyn Clock,
) -> Result<Utf8PathBuf, CommandError> {
    let path = home.join("token");
    if path.try_exists()? {
        return Ok(path);
    }
    let token = server::token::make();
    let now = clock.now();
    let (organisation, user) = (Id::new(clock), Id::new(clock));
    let mut tx = store.begin().await?;
    tx.create_organisation(organisation, "Home", now).await?;
    tx.create_user(&UserRecord {
        id: user,
        email: format!("owner-{organisation}@nacre.localhost"),
        name: "Owner".to_owned(),
        created_at: now,
    })
    .await?;
    tx.set_role(organisation, user, Role::Owner, now).await?;
    tx.create_token(&NewToken {
        id: Id::new(clock),
        organisation,
        user: Some(user),
        name: "this machine".to_owned(),
        hash: TokenHash::of(&Secret::new(token.clone())),
        expires_at: None,
        at: now,
    })
    .await?;
    // Written first under another name: a token in the file is one that the store knows, or will
    // not be looked at.
    let draft = home.join("token.new");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(token.as_bytes())?;
    file.sync_all()?;
    tx.commit().await?;
    fs_err::rename(&draft, &path).context("the owner's token was not kept")?;
    Ok(path)
}

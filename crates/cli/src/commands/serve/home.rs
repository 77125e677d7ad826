//! What a server finds and leaves in its home: a lock, a name, the first owner's token.

use fs_err::os::unix::fs::OpenOptionsExt as _;
use std::io::Write as _;

use anyhow::Context as _;
use camino::{Utf8Path, Utf8PathBuf};
use fs_err::{File, OpenOptions};
use model::{Clock, Id};
use rustix::fs::{FlockOperation, flock};
use server::vault::tokens::{self, Kind as TokenKind};
use store::Store;
use store::accounts::{NewToken, TokenHash, UserRecord};
use store::members::OrganisationRecord;

use crate::config;
use crate::error::{CommandError, Kind};

/// Who a first start makes.
const OWNER: &str = "owner@nacre.localhost";

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
            return Err(
                CommandError::new(Kind::Refused, format!("another nacre serves {home}"))
                    .hint("use that one, or name another home by NACRE_HOME"),
            );
        }
        Ok(Self {
            _file: file,
            owner: name_of(home)?,
        })
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }
}

/// Like no other's, though several machines share a database and call their homes alike.
fn name_of(home: &Utf8Path) -> Result<String, CommandError> {
    let path = home.join("server.id");
    if let Ok(name) = fs_err::read_to_string(&path) {
        return Ok(name);
    }
    let name = format!("server {}", Id::<model::Boot>::new(&model::SystemClock));
    let draft = home.join("server.id.new");
    fs_err::write(&draft, &name)?;
    fs_err::rename(&draft, &path)?;
    Ok(name)
}

/// Where commands of this home find the server.
pub(super) fn leave_url(home: &Utf8Path, url: &str) -> Result<(), CommandError> {
    let draft = home.join("url.new");
    fs_err::write(&draft, format!("{url}\n"))?;
    fs_err::rename(&draft, home.join(config::URL_FILE))?;
    Ok(())
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
    let now = clock.now();
    let organisation = OrganisationRecord {
        id: Id::new(clock),
        name: "Home".to_owned(),
        created_at: now,
    };
    let owner = UserRecord {
        id: Id::new(clock),
        email: OWNER.to_owned(),
        name: "Owner".to_owned(),
        created_at: now,
    };
    let mut tx = store.begin().await?;
    tx.found(&organisation, &owner).await?;
    tx.commit().await?;
    // Founded now, or by one that was killed before it had kept the token.
    let owner = store.find_user_by_email(OWNER).await?;
    let owner =
        owner.context("the database has owners of another server: bring its token along")?;
    let organisations = store.organisations_of(owner.id, 1).await?;
    let (organisation, _) = organisations.first().context("the owner owns nothing")?;
    let token = tokens::make(TokenKind::Token)?;
    let draft = home.join("token.new");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(token.expose().as_bytes())?;
    file.sync_all()?;
    let mut tx = store.begin().await?;
    tx.create_token(&NewToken {
        id: Id::new(clock),
        organisation: organisation.id,
        user: Some(owner.id),
        name: "this machine".to_owned(),
        hash: TokenHash::of(&token),
        expires_at: None,
        at: now,
    })
    .await?;
    tx.commit().await?;
    fs_err::rename(&draft, &path).context("the owner's token was not kept")?;
    Ok(path)
}

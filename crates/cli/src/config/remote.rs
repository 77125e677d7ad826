//! Which server commands talk to, and by what right.

use std::io;

use model::Secret;

use super::{home, variable};
use crate::error::{CommandError, Kind};

/// In the home, beside the token.
pub(crate) const URL_FILE: &str = "url";
const USUAL: &str = "http://127.0.0.1:7070";

/// A server, and a token for it.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) url: String,
    pub(crate) token: Secret,
}

/// By `NACRE_URL` and `NACRE_TOKEN`; without them, the server that `nacre up` started here.
pub(crate) fn remote() -> Result<Remote, CommandError> {
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let url = given("NACRE_URL").map(|url| url.to_string_lossy().into_owned());
    let url = match url {
        Some(url) => url,
        None => stored_url()?,
    };
    if let Some(token) = given("NACRE_TOKEN") {
        let token = token.into_string();
        let token = token.map_err(|_| CommandError::usage("NACRE_TOKEN is no token"))?;
        return Ok(Remote {
            url,
            token: Secret::new(token),
        });
    }
    // The token of this machine's server is nobody else's to see.
    if !is_here(&url) {
        return Err(
            CommandError::refused(format!("there is no token for {url}")).hint(
                "set NACRE_TOKEN: `nacre token create NAME` makes one on that server's machine",
            ),
        );
    }
    let token = stored()?;
    Ok(Remote { url, token })
}

/// Where the last server of this home listened.
fn stored_url() -> Result<String, CommandError> {
    let (home, _) = home()?;
    let url = fs_err::read_to_string(home.join(URL_FILE)).unwrap_or_default();
    let url = url.trim();
    // Only a server of this machine leaves its address here.
    let url = if url.is_empty() || !is_here(url) {
        USUAL
    } else {
        url
    };
    Ok(url.to_owned())
}

/// What the first start of a server left.
fn stored() -> Result<Secret, CommandError> {
    let (home, _) = home()?;
    let path = home.join("token");
    match fs_err::read_to_string(&path) {
        Ok(token) => Ok(Secret::new(token.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("no server was started here yet: there is no token at {path}");
            Err(CommandError::new(Kind::Unavailable, message)
                .hint("start one with `nacre up`, or set NACRE_URL and NACRE_TOKEN"))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(
            CommandError::refused(format!("the token at {path} is another user's"))
                .hint("set NACRE_TOKEN, or run this as whoever runs `nacre up`"),
        ),
        Err(error) => Err(error.into()),
    }
}

/// Whether it can only be a server on this machine.
fn is_here(url: &str) -> bool {
    let Ok(uri) = url.parse::<hyper::Uri>() else {
        // It is no address, which the client says better.
        return true;
    };
    let host = uri.host().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    ip.map_or_else(
        |_| host == "localhost" || host.ends_with(".localhost"),
        |ip| ip.is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_token_stays_on_this_machine() {
        for here in [
            USUAL,
            "http://localhost:1",
            "http://[::1]:7070",
            "http://nacre.localhost",
        ] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in [
            "https://nacre.example",
            "http://10.0.0.1:7070",
            "http://localhost.example",
        ] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}

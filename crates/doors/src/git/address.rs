//! What a request at the git door asks for. All that is known of a repository's name is decided
//! here, once, and strictly: what is not plainly fine is refused.

use hyper::Method;

use super::config::{Host, Scheme};

/// What is asked of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    Fetch,
    Push,
}

impl Verb {
    pub(super) fn service(self) -> &'static str {
        match self {
            Self::Fetch => "git-upload-pack",
            Self::Push => "git-receive-pack",
        }
    }

    fn of_service(service: &str) -> Option<Self> {
        let both = [Self::Fetch, Self::Push];
        both.into_iter().find(|verb| verb.service() == service)
    }
}

/// A repository, on its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) scheme: Scheme,
    /// In lower case, with a port only where the configuration lists it so.
    pub(super) host: String,
    /// As it was written, which is how the host is asked.
    pub(super) written: String,
    /// Without `.git`, which is how it is granted.
    pub(super) repo: String,
}

/// The two halves of a conversation with git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Refs,
    Pack,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) address: Address,
    pub(super) verb: Verb,
    pub(super) part: Part,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error("the git door is asked as /git/https/HOST/REPOSITORY, by git itself")]
    Form,
    #[error("this is not a name of a host that git may be asked of")]
    Host,
    #[error("this is not a plain name of a repository")]
    Repository,
    #[error(
        "only git's smart HTTP protocol goes through this door: fetching and pushing, nothing else"
    )]
    NotSmart,
    #[error("large files (LFS) do not go through the git door yet; try with GIT_LFS_SKIP_SMUDGE=1")]
    LargeFiles,
}

impl Asked {
    pub(super) fn read(
        method: &Method,
        path: &str,
        query: Option<&str>,
        hosts: &[Host],
    ) -> Result<Self, AddressError> {
        let rest = path.strip_prefix("/git/https/").ok_or(AddressError::Form)?;
        let (host, rest) = rest.split_once('/').ok_or(AddressError::Form)?;
        let (scheme, host) = read_host(host, hosts)?;
        if rest.contains("/info/lfs/") || rest.ends_with("/info/lfs") {
            return Err(AddressError::LargeFiles);
        }
        let (written, part, verb) = if let Some(repo) = rest.strip_suffix("/info/refs") {
            let service = query.and_then(|query| query.strip_prefix("service="));
            (repo, Part::Refs, service.and_then(Verb::of_service))
        } else {
            let (repo, service) = rest.rsplit_once('/').ok_or(AddressError::NotSmart)?;
            // A query has no meaning here.
            let verb = Verb::of_service(service).filter(|_| query.is_none());
            (repo, Part::Pack, verb)
        };
        let verb = verb.ok_or(AddressError::NotSmart)?;
        let expected = match part {
            Part::Refs => Method::GET,
            Part::Pack => Method::POST,
        };
        if *method != expected {
            return Err(AddressError::NotSmart);
        }
        let repo = read_repository(written)?;
        let address = Address {
            scheme,
            host,
            written: written.to_owned(),
            repo,
        };
        Ok(Self {
            address,
            verb,
            part,
        })
    }

    pub(super) fn url(&self) -> String {
        let Address {
            scheme,
            host,
            written,
            ..
        } = &self.address;
        let scheme = scheme.text();
        let service = self.verb.service();
        match self.part {
            Part::Refs => format!("{scheme}://{host}/{written}/info/refs?service={service}"),
            Part::Pack => format!("{scheme}://{host}/{written}/{service}"),
        }
    }
}

/// A name that the configuration lists, or one that can only be a public name.
fn read_host(text: &str, hosts: &[Host]) -> Result<(Scheme, String), AddressError> {
    let name = text.to_ascii_lowercase();
    if let Some(listed) = hosts.iter().find(|host| host.name == name) {
        return Ok((listed.scheme, name));
    }
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let labels: Vec<&str> = name.split('.').collect();
    let last = labels.last().copied().unwrap_or_default();
    // Addresses in numbers, in any of the ways they can be written, end in a digit's label.
    let is_public = labels.len() >= 2
        && last.starts_with(|letter: char| letter.is_ascii_lowercase())
        && last != "localhost";
    if name.len() > 253 || !is_public || !labels.iter().all(|label| is_label(label)) {
        return Err(AddressError::Host);
    }
    Ok((Scheme::Https, name))
}

const LONGEST: usize = 512;
const DEEPEST: usize = 24;

/// Nothing is decoded: a name with `%` in it is no plain name.
fn read_repository(written: &str) -> Result<String, AddressError> {
    let repo = written.strip_suffix(".git").unwrap_or(written);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+~".contains(&byte);
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment.bytes().all(plain)
            && !segment.bytes().all(|byte| byte == b'.')
    };
    let fits = repo.len() <= LONGEST && repo.split('/').count() <= DEEPEST;
    if !fits || !repo.split('/').all(is_segment) {
        return Err(AddressError::Repository);
    }
    Ok(repo.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hosts() -> Vec<Host> {
        vec![
            Host {
                name: "127.0.0.1:8080".to_owned(),
                scheme: Scheme::Http,
            },
            Host {
                name: "git.example.org:8443".to_owned(),
                scheme: Scheme::Https,
            },
        ]
    }

    fn refs(path: &str) -> Result<Asked, AddressError> {
        let path = format!("{path}/info/refs");
        Asked::read(
            &Method::GET,
            &path,
            Some("service=git-upload-pack"),
            &hosts(),
        )
    }

    #[test]
    fn a_repository_has_one_name_however_it_is_written() {
        for path in [
            "/git/https/example.org/a/b",
            "/git/https/example.org/a/b.git",
            "/git/https/EXAMPLE.org/a/b.git",
        ] {
            let address = refs(path).unwrap().address;
            assert_eq!(
                (address.host.as_str(), address.repo.as_str()),
                ("example.org", "a/b")
            );
        }
        let asked = refs("/git/https/EXAMPLE.org/a/b.git").unwrap();
        assert_eq!(
            asked.url(),
            "https://example.org/a/b.git/info/refs?service=git-upload-pack"
        );
    }

    #[test]
    fn ports_numbers_and_plain_http_are_for_listed_hosts() {
        let asked = refs("/git/https/127.0.0.1:8080/a").unwrap();
        assert!(asked.url().starts_with("http://127.0.0.1:8080/a/"));
        let asked = refs("/git/https/git.example.org:8443/a").unwrap();
        assert!(asked.url().starts_with("https://git.example.org:8443/a/"));
        for host in [
            "git.example.org:8444",
            "example.org:443",
            "127.0.0.1",
            "127.0.0.1:8081",
            "2130706433",
            "0x7f.1",
            "127.1",
            "1.0x7f000001",
            "[::1]",
            "localhost",
            "a.localhost",
            "metadata",
            "user@example.org",
            "user:password@example.org",
            "example.org.",
            ".example.org",
            "-a.example.org",
            "exa_mple.org",
            "ex%61mple.org",
            "example.org%00",
            "example.org#",
            "example.org\\@other.org",
            "",
        ] {
            let refused = refs(&format!("/git/https/{host}/a/b"));
            assert_eq!(refused, Err(AddressError::Host), "{host}");
        }
    }

    #[test]
    fn a_name_that_is_not_plain_is_refused() {
        for repo in [
            "",
            "/",
            "a//b",
            "a/",
            "/a",
            ".",
            "..",
            "a/..",
            "a/../b",
            "a/./b",
            "a/...",
            "a/%2e%2e/b",
            "a%2fb",
            "a%2Fb",
            "a%00",
            "a\\b",
            "a/b?x",
            "a;b",
            "a:b",
            "a@b",
            "a/.git",
            ".git",
            "é/b",
            "a b",
        ] {
            let refused = refs(&format!("/git/https/example.org/{repo}"));
            assert!(refused.is_err(), "{repo}: {refused:?}");
        }
        let long = "a/".repeat(300);
        assert!(refs(&format!("/git/https/example.org/{long}a")).is_err());
    }

    #[test]
    fn only_the_smart_protocol_goes_through() {
        let base = "/git/https/example.org/a/b";
        let hosts = hosts();
        let ask = |method, path: &str, query| {
            Asked::read(&method, &format!("{base}{path}"), query, &hosts)
        };
        let upload = Some("service=git-upload-pack");
        assert!(ask(Method::GET, "/info/refs", upload).is_ok());
        assert!(ask(Method::POST, "/git-upload-pack", None).is_ok());
        let push = ask(Method::POST, "/git-receive-pack", None).unwrap();
        assert_eq!((push.verb, push.part), (Verb::Push, Part::Pack));
        for (method, path, query) in [
            (Method::GET, "/info/refs", None),
            (
                Method::GET,
                "/info/refs",
                Some("service=git-upload-archive"),
            ),
            (
                Method::GET,
                "/info/refs",
                Some("service=git-upload-pack&x=y"),
            ),
            (
                Method::GET,
                "/info/refs",
                Some("x=y&service=git-upload-pack"),
            ),
            (Method::GET, "/info/refs", Some("service=git-upload-pac%6b")),
            (Method::POST, "/info/refs", upload),
            (Method::GET, "/git-upload-pack", None),
            (Method::POST, "/git-upload-pack", Some("a=b")),
            (Method::POST, "/git-upload-pack/", None),
            (Method::GET, "/HEAD", None),
            (Method::GET, "/objects/info/packs", None),
            (Method::PUT, "/git-receive-pack", None),
        ] {
            assert!(
                ask(method.clone(), path, query).is_err(),
                "{method} {path} {query:?}"
            );
        }
        assert_eq!(
            ask(Method::POST, "/info/lfs/objects/batch", None),
            Err(AddressError::LargeFiles)
        );
        for path in [
            "/git/http/example.org/a/info/refs",
            "/git/ssh/a/b",
            "/",
            "/git/https/",
        ] {
            assert!(Asked::read(&Method::GET, path, upload, &hosts).is_err());
        }
    }

    proptest! {
        #[test]
        fn what_is_let_through_leads_to_the_host_it_names(
            host in "[a-z0-9.:@%/-]{0,20}", repo in "[a-z0-9./%?#@:-]{0,20}",
        ) {
            if let Ok(asked) = refs(&format!("/git/https/{host}/{repo}")) {
                let url = reqwest::Url::parse(&asked.url()).unwrap();
                let host = asked.address.host.split(':').next().unwrap();
                prop_assert_eq!(url.host_str(), Some(host));
                prop_assert_eq!(url.username(), "");
                let path = format!("/{}/info/refs", asked.address.written);
                prop_assert_eq!(url.path(), path);
            }
        }
    }
}

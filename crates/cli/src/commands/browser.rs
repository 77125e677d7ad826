//! The browser of whoever sits here.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::config::Desktop;

/// What opens links on a desktop.
const USUAL: &str = "xdg-open";
/// Whoever lasts so long has not refused: some openers are the browser itself.
const SOON: Duration = Duration::from_secs(2);

/// Whether there is a screen on which a browser would appear to whoever typed the command.
pub(crate) fn is_near(desktop: &Desktop, at_terminal: bool) -> bool {
    at_terminal && desktop.has_display
}

/// Whether somebody took the link.
pub(crate) async fn open(desktop: &Desktop, url: &str) -> bool {
    for line in openers(desktop) {
        if start(&command(desktop, &line, url)).await {
            return true;
        }
    }
    false
}

/// Those that `BROWSER` names, then the desktop's.
fn openers(desktop: &Desktop) -> Vec<String> {
    let named = desktop.browser.as_deref().unwrap_or_default().split(':');
    let named = named.map(str::trim).filter(|line| !line.is_empty());
    named.chain([USUAL]).map(str::to_owned).collect()
}

/// The link goes where `%s` stands, or to the end. Root opens it as whoever the desktop belongs to.
fn command(desktop: &Desktop, line: &str, url: &str) -> Vec<String> {
    let mut words = Vec::new();
    if let Some((name, uid)) = &desktop.owner {
        words.extend(["sudo", "-n", "-H", "-u", name, "--", "env"].map(str::to_owned));
        words.push(format!("XDG_RUNTIME_DIR=/run/user/{uid}"));
    }
    let given = line.split_whitespace();
    words.extend(given.map(|word| word.replace("%s", url)));
    if !line.contains("%s") {
        words.push(url.to_owned());
    }
    words
}

async fn start(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A Ctrl-C that is meant for us does not close the browser.
        .process_group(0)
        .spawn();
    let Ok(mut child) = started else {
        return false;
    };
    let ended = tokio::time::timeout(SOON, child.wait()).await;
    ended.map_or(true, |status| status.is_ok_and(|status| status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desktop(browser: Option<&str>, has_display: bool) -> Desktop {
        Desktop {
            browser: browser.map(str::to_owned),
            has_display,
            owner: None,
        }
    }

    #[test]
    fn a_browser_is_opened_only_before_somebody_who_sees_it() {
        let near = desktop(None, true);
        assert!(is_near(&near, true));
        assert!(!is_near(&near, false), "somebody reads it through a pipe");
        // As over ssh, whatever the variable says.
        assert!(!is_near(&desktop(Some("firefox"), false), true));
    }

    #[test]
    fn browsers_that_are_named_are_tried_before_the_usual_one() {
        let named = desktop(Some("firefox: my-browser --new %s :"), true);
        assert_eq!(
            openers(&named),
            ["firefox", "my-browser --new %s", "xdg-open"]
        );
        assert_eq!(openers(&desktop(None, true)), ["xdg-open"]);
        assert_eq!(command(&named, "firefox", "u"), ["firefox", "u"]);
        assert_eq!(command(&named, "b --to=%s x", "u"), ["b", "--to=u", "x"]);
    }

    #[test]
    fn root_opens_no_browser_as_root_for_who_works_by_sudo() {
        let desktop = Desktop {
            owner: Some(("ada".to_owned(), 1000)),
            ..desktop(None, true)
        };
        assert_eq!(
            command(&desktop, "xdg-open", "u").join(" "),
            "sudo -n -H -u ada -- env XDG_RUNTIME_DIR=/run/user/1000 xdg-open u"
        );
    }

    #[tokio::test]
    async fn what_cannot_be_opened_is_no_error() {
        assert!(!start(&["/no/such/browser".to_owned()]).await);
        assert!(!start(&["false".to_owned()]).await);
        assert!(start(&["true".to_owned()]).await);
    }
}

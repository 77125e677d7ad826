//! The port that the preview shows. Caddy imports one file of ours for it; nothing but a checked
//! number goes into that file, so our own routes cannot be broken by it.

use std::fmt;
use std::io;

use crate::place::Place;
use crate::state;

/// Whoever runs Caddy.
pub trait Preview: fmt::Debug {
    /// Its configuration changed. Comes back at once.
    fn reload(&self);
}

/// Nobody does.
impl Preview for () {
    fn reload(&self) {}
}

pub(super) fn write(place: &Place, port: u16) -> io::Result<()> {
    state::replace(&place.state.join("caddy/user.caddy"), text(port).as_bytes())
}

/// A whole `handle`, so that it takes what our own routes left.
fn text(port: u16) -> String {
    format!(
        "handle {{\n\
         \treverse_proxy localhost:{port} {{\n\
         \t\theader_up Host {{upstream_hostport}}\n\
         \t\theader_down -X-Frame-Options\n\
         \t\theader_down -Content-Security-Policy\n\
         \t}}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_a_text_of_its_own() {
        assert_ne!(text(300), text(3000));
        insta::assert_snapshot!(text(3000), @r"
        handle {
        	reverse_proxy localhost:3000 {
        		header_up Host {upstream_hostport}
        		header_down -X-Frame-Options
        		header_down -Content-Security-Policy
        	}
        }
        ");
    }
}

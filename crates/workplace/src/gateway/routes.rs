//! The table of routes, and where a path leads.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use hyper::{Method, Response};
use model::Secret;
use tokio::sync::{mpsc, watch};

use super::socket::Socket;
use crate::tunnels::{Protocol, Tunnel, Tunnels};

const PREVIEW: &str = "preview";

/// What lies under a first segment.
#[derive(Debug, Clone)]
pub struct Route {
    /// One segment, without slashes.
    pub name: &'static str,
    pub to: To,
    /// Where its root leads, below the route, for backends whose own root shows nothing.
    pub index: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub enum To {
    /// A port of the sandbox's loopback.
    Port(u16),
    /// The agent's port. It gets the password and the user does not.
    Agent(u16, watch::Receiver<Option<Secret>>),
    /// Something in this process.
    Handler(Rc<dyn Handler>),
    /// The tunnels, by the second segment.
    Tunnels(Tunnels),
    /// The hub's end of the link: sockets alone, each handed on as it is.
    Link(mpsc::Sender<Socket>),
}

/// Something in this process that serves a route.
pub trait Handler: fmt::Debug {
    /// The sub-protocol that its sockets speak, whatever the client asks for.
    fn protocol(&self) -> &'static str;

    /// Answers a plain request. The path is below the route.
    fn answer(&self, method: &Method, path: &str) -> Response<Bytes>;

    /// Serves a socket until it ends.
    fn serve(&self, socket: Socket) -> Pin<Box<dyn Future<Output = ()>>>;
}

impl Route {
    pub fn new(name: &'static str, to: To) -> Self {
        let index = None;
        Self { name, to, index }
    }

    pub fn editor(port: u16) -> Self {
        Self::new("vscode", To::Port(port))
    }

    /// Its viewer is told where its socket is, since it would look for it at the root.
    pub fn desktop(port: u16) -> Self {
        let viewer = "vnc.html?path=vnc/websockify&autoconnect=true&resize=scale&view_clip=false";
        Self {
            index: Some(viewer),
            ..Self::new("vnc", To::Port(port))
        }
    }

    pub fn terminal(terminal: Rc<dyn Handler>) -> Self {
        Self::new("ttyd", To::Handler(terminal))
    }

    pub fn agent(port: u16, password: watch::Receiver<Option<Secret>>) -> Self {
        Self::new("opencode", To::Agent(port, password))
    }

    pub fn tunnels(tunnels: Tunnels) -> Self {
        Self::new("t", To::Tunnels(tunnels))
    }

    /// What somebody exposed.
    pub fn preview(port: u16) -> Self {
        Self::new(PREVIEW, To::Port(port))
    }

    pub fn link(sockets: mpsc::Sender<Socket>) -> Self {
        Self::new("link", To::Link(sockets))
    }
}

/// Where a path leads.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// Something, with the rest of the path.
    To(Destination),
    /// The same path with a slash behind it.
    WithSlash(String),
    /// What shows something where the root does not.
    Index(String),
    Nowhere,
}

#[derive(Debug, Clone)]
pub(super) struct Destination {
    pub(super) end: End,
    /// Under which address the client sees it.
    pub(super) prefix: String,
    /// What the other end gets to see.
    pub(super) path: String,
}

#[derive(Debug, Clone)]
pub(super) enum End {
    Backend(Backend),
    Handler(Rc<dyn Handler>),
    Link(mpsc::Sender<Socket>),
}

#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) port: u16,
    pub(super) takes: Takes,
    pub(super) password: Option<watch::Receiver<Option<Secret>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Everything,
    SocketsAlone,
}

impl Backend {
    fn at(port: u16) -> Self {
        Self {
            port,
            takes: Takes::Everything,
            password: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Routes(Vec<Route>);

impl Routes {
    pub(super) fn new(routes: Vec<Route>) -> Self {
        Self(routes)
    }

    /// By whole segments.
    pub(super) fn find(&self, path: &str) -> Way {
        let (name, rest) = first_segment(path);
        let Some(route) = self.0.iter().find(|route| route.name == name) else {
            return Way::Nowhere;
        };
        let end = match &route.to {
            To::Tunnels(tunnels) => return find_tunnel(route.name, tunnels, rest),
            To::Port(port) => End::Backend(Backend::at(*port)),
            To::Agent(port, password) => End::Backend(Backend {
                password: Some(password.clone()),
                ..Backend::at(*port)
            }),
            To::Handler(handler) => End::Handler(Rc::clone(handler)),
            To::Link(sockets) => End::Link(sockets.clone()),
        };
        match (rest, route.index) {
            // The link has no pages.
            ("", _) if !matches!(end, End::Link(_)) => Way::WithSlash(format!("/{name}/")),
            ("/", Some(index)) => Way::Index(format!("/{name}/{index}")),
            _ => Way::To(Destination {
                end,
                prefix: format!("/{name}"),
                path: below(rest),
            }),
        }
    }

    /// For a page that asks for something by an absolute path: it is the only tunnel's, or the
    /// preview's where there is no tunnel.
    pub(super) fn find_for_own_page(&self, path: &str) -> Way {
        let tunnels = self.0.iter().find_map(|route| match &route.to {
            To::Tunnels(tunnels) => Some((route.name, tunnels)),
            _ => None,
        });
        if let Some((name, tunnels)) = tunnels {
            match tunnels.only() {
                Some(tunnel) => return Way::To(destination(name, &tunnel, path)),
                None if !tunnels.list().is_empty() => return Way::Nowhere,
                None => {}
            }
        }
        let preview = self.0.iter().find(|route| route.name == PREVIEW);
        let Some((To::Port(port), name)) = preview.map(|route| (&route.to, route.name)) else {
            return Way::Nowhere;
        };
        Way::To(Destination {
            end: End::Backend(Backend::at(*port)),
            prefix: format!("/{name}"),
            path: below(path),
        })
    }
}

fn find_tunnel(route: &str, tunnels: &Tunnels, path: &str) -> Way {
    let (name, rest) = first_segment(path);
    match tunnels.find(name) {
        Some(_) if rest.is_empty() => Way::WithSlash(format!("/{route}/{name}/")),
        Some(tunnel) => Way::To(destination(route, &tunnel, rest)),
        None if name.is_empty() => Way::Nowhere,
        None => match tunnels.only() {
            Some(tunnel) => Way::To(destination(route, &tunnel, path)),
            None => Way::Nowhere,
        },
    }
}

fn destination(route: &str, tunnel: &Tunnel, path: &str) -> Destination {
    let takes = match tunnel.protocol {
        Protocol::Http | Protocol::Auto => Takes::Everything,
        Protocol::Ws => Takes::SocketsAlone,
    };
    Destination {
        end: End::Backend(Backend {
            takes,
            ..Backend::at(tunnel.port)
        }),
        prefix: format!("/{route}/{}", tunnel.name),
        path: below(path),
    }
}

fn below(rest: &str) -> String {
    if rest.is_empty() {
        return "/".to_owned();
    }
    rest.to_owned()
}

/// `/a/b/c` is `a` and `/b/c`.
fn first_segment(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_at(path.find('/').unwrap_or(path.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(tunnels: &[(&str, Protocol)]) -> Routes {
        let directory = camino_tempfile::tempdir().unwrap();
        let (registry, _) = Tunnels::open(directory.path().as_std_path(), &[]);
        for (port, (name, protocol)) in (3000..).zip(tunnels) {
            registry.register(name, port, *protocol).unwrap();
        }
        Routes::new(vec![
            Route::editor(8765),
            Route::desktop(6080),
            Route::tunnels(registry),
            Route::preview(20000),
        ])
    }

    fn shown(way: Way) -> String {
        match way {
            Way::Nowhere => "nowhere".to_owned(),
            Way::WithSlash(address) | Way::Index(address) => format!("see {address}"),
            Way::To(Destination { end, prefix, path }) => {
                let end = match end {
                    End::Backend(backend) if backend.takes == Takes::SocketsAlone => {
                        format!("{} (sockets)", backend.port)
                    }
                    End::Backend(backend) => backend.port.to_string(),
                    other => format!("{other:?}"),
                };
                format!("{end} {prefix} {path}")
            }
        }
    }

    fn table(routes: &Routes, paths: &[&str]) -> String {
        let line = |path: &&str| format!("{path} -> {}\n", shown(routes.find(path)));
        paths.iter().map(line).collect()
    }

    #[test]
    fn a_route_is_a_whole_segment_and_is_taken_off_once() {
        let paths = [
            "/vscode",
            "/vscode/",
            "/vscode/a/b",
            "/vscode/vscode/x",
            "/vscode//x",
        ];
        let others = [
            "/vscodex",
            "/VSCODE/",
            "/",
            "/api/tunnels",
            "/%76scode/",
            "/vnc/",
        ];
        insta::assert_snapshot!(table(&routes(&[]), &[&paths[..], &others].concat()), @r"
        /vscode -> see /vscode/
        /vscode/ -> 8765 /vscode /
        /vscode/a/b -> 8765 /vscode /a/b
        /vscode/vscode/x -> 8765 /vscode /vscode/x
        /vscode//x -> 8765 /vscode //x
        /vscodex -> nowhere
        /VSCODE/ -> nowhere
        / -> nowhere
        /api/tunnels -> nowhere
        /%76scode/ -> nowhere
        /vnc/ -> see /vnc/vnc.html?path=vnc/websockify&autoconnect=true&resize=scale&view_clip=false
        ");
    }

    #[test]
    fn an_unknown_name_leads_to_the_only_tunnel_with_its_path_whole() {
        let paths = [
            "/t/web",
            "/t/web/x",
            "/t/assets/x.js",
            "/t/assets",
            "/t/",
            "/t",
        ];
        insta::assert_snapshot!(table(&routes(&[("web", Protocol::Http)]), &paths), @r"
        /t/web -> see /t/web/
        /t/web/x -> 3000 /t/web /x
        /t/assets/x.js -> 3000 /t/web /assets/x.js
        /t/assets -> 3000 /t/web /assets
        /t/ -> nowhere
        /t -> nowhere
        ");
    }

    #[test]
    fn of_several_tunnels_an_unknown_name_leads_to_none() {
        let routes = routes(&[("web", Protocol::Auto), ("live", Protocol::Ws)]);
        let paths = ["/t/web/", "/t/live/x", "/t/assets/x.js"];
        insta::assert_snapshot!(table(&routes, &paths), @r"
        /t/web/ -> 3000 /t/web /
        /t/live/x -> 3001 (sockets) /t/live /x
        /t/assets/x.js -> nowhere
        ");
        assert_eq!(shown(routes.find_for_own_page("/x.js")), "nowhere");
    }

    #[test]
    fn what_a_page_asks_for_by_an_absolute_path_is_the_only_tunnels_or_the_previews() {
        let found = |tunnels| shown(routes(tunnels).find_for_own_page("/x.js"));
        assert_eq!(found(&[("web", Protocol::Http)]), "3000 /t/web /x.js");
        assert_eq!(found(&[]), "20000 /preview /x.js");
    }
}

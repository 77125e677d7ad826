//! Tunnels as the gateway leads to them.

use hyper::StatusCode;
use wire::workplace::OUR_PORTS;
use workplace::tunnels::{Protocol, TunnelError};

use super::ask::HOST;
use super::sockets::{connect, connect_as_ada};
use super::world::with_gateway;

#[test]
fn a_tunnel_leads_to_its_port_until_it_is_removed() {
    with_gateway(async |world| {
        world
            .tunnels
            .register("web", world.echo, Protocol::Http)
            .unwrap();
        let reply = world.get_as_ada("/t/web/a?b=c").send().await;
        assert_eq!(reply.json()["target"], "/a?b=c");
        assert_eq!(reply.got("x-forwarded-prefix"), ["/t/web"]);
        world.tunnels.remove("web", "ada").unwrap();
        assert_eq!(
            world.get_as_ada("/t/web/a").status().await,
            StatusCode::NOT_FOUND
        );
    });
}

#[test]
fn a_tunnel_needs_credentials() {
    with_gateway(async |world| {
        world
            .tunnels
            .register("web", world.echo, Protocol::Http)
            .unwrap();
        assert_eq!(
            world.get("/t/web/").status().await,
            StatusCode::UNAUTHORIZED
        );
    });
}

#[test]
fn no_tunnel_leads_to_a_port_of_ours() {
    with_gateway(async |world| {
        for port in OUR_PORTS {
            let refused = world.tunnels.register("web", port, Protocol::Http);
            assert!(matches!(refused, Err(TunnelError::OurPort(_))), "{port}");
        }
    });
}

#[test]
fn a_tunnel_for_sockets_refuses_a_plain_request() {
    with_gateway(async |world| {
        world
            .tunnels
            .register("live", world.echo, Protocol::Ws)
            .unwrap();
        let reply = world.get_as_ada("/t/live/").send().await;
        assert_eq!(reply.status, StatusCode::UPGRADE_REQUIRED);
        assert!(connect_as_ada(&world, "/t/live/ws").await.is_ok());
    });
}

#[test]
fn a_tunnel_for_pages_lets_them_open_sockets() {
    with_gateway(async |world| {
        for protocol in [Protocol::Http, Protocol::Auto] {
            world.tunnels.register("web", world.echo, protocol).unwrap();
            assert_eq!(world.get_as_ada("/t/web/").status().await, StatusCode::OK);
            assert!(connect_as_ada(&world, "/t/web/ws").await.is_ok());
        }
    });
}

#[test]
fn a_page_of_the_only_tunnel_finds_what_it_asks_for_by_absolute_path() {
    with_gateway(async |world| {
        world
            .tunnels
            .register("web", world.echo, Protocol::Http)
            .unwrap();
        let unknown_name = world.get_as_ada("/t/assets/x.js").send().await;
        assert_eq!(unknown_name.json()["target"], "/assets/x.js");

        let cookie = world.cookie().await;
        let page = format!("https://{HOST}/t/web/");
        let by_referer = world
            .get("/assets/x.js")
            .cookie(&cookie)
            .header("referer", &page);
        assert_eq!(by_referer.send().await.json()["target"], "/assets/x.js");
        let by_fetch = world.get("/assets/y.js").cookie(&cookie);
        let by_fetch = by_fetch.header("sec-fetch-site", "same-origin");
        assert_eq!(by_fetch.send().await.json()["target"], "/assets/y.js");

        let cookie_header = format!("__Host-gateway_session={cookie}");
        let origin = format!("https://{HOST}");
        let headers = [("cookie", cookie_header.as_str()), ("origin", &origin)];
        assert!(connect(&world, "/", &headers).await.is_ok());

        let by_hand = world.get("/assets/x.js").cookie(&cookie);
        assert_eq!(by_hand.status().await, StatusCode::NOT_FOUND);
        world
            .tunnels
            .register("api", world.echo, Protocol::Http)
            .unwrap();
        let of_two = world
            .get("/assets/x.js")
            .cookie(&cookie)
            .header("referer", &page);
        assert_eq!(of_two.status().await, StatusCode::NOT_FOUND);
    });
}

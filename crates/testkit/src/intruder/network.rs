//! Sockets that reach past the loopback.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::time::Duration;

use super::facts::Facts;
use super::sys::{Errno, sys};
use super::{Outcome, all, broke, denied, held};

const SOON: Duration = Duration::from_secs(2);

fn socket(family: i32, kind: i32, protocol: i32) -> Result<i64, Errno> {
    let made = sys!(SYS_socket, family, kind | libc::SOCK_CLOEXEC, protocol);
    if let Ok(fd) = made {
        let _ = sys!(SYS_close, fd);
    }
    made
}

/// Every family that a kernel may have but three. Needs `--inside`: elsewhere it makes the kernel
/// load modules.
pub(crate) fn families(_: &Facts) -> Outcome {
    let allowed = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    all((0..=45)
        .filter(|family| !allowed.contains(family))
        .map(|family| {
            let kinds = [
                libc::SOCK_STREAM,
                libc::SOCK_DGRAM,
                libc::SOCK_RAW,
                libc::SOCK_SEQPACKET,
            ];
            let outcomes =
                kinds.map(|kind| (format!("type {kind}"), denied(socket(family, kind, 0))));
            (format!("family {family}"), all(outcomes))
        }))
}

/// It does not know network namespaces: whoever has it talks to the machine around this one.
pub(crate) fn vsock(_: &Facts) -> Outcome {
    let kinds = [
        ("stream", libc::SOCK_STREAM),
        ("datagram", libc::SOCK_DGRAM),
        ("packet", libc::SOCK_SEQPACKET),
    ];
    all(kinds.map(|(name, kind)| (name.to_owned(), denied(socket(libc::AF_VSOCK, kind, 0)))))
}

pub(crate) fn packet(_: &Facts) -> Outcome {
    all([
        (
            "raw".to_owned(),
            denied(socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
        ),
        (
            "datagram".to_owned(),
            denied(socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)),
        ),
    ])
}

pub(crate) fn kernel_crypto(_: &Facts) -> Outcome {
    denied(socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0))
}

pub(crate) fn netlink(_: &Facts) -> Outcome {
    all((1..=22).map(|protocol| {
        (
            format!("protocol {protocol}"),
            denied(socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)),
        )
    }))
}

/// Both halves at once: a pair has a family too.
pub(crate) fn socket_pairs(_: &Facts) -> Outcome {
    let families = [
        ("inet", libc::AF_INET),
        ("tipc", libc::AF_TIPC),
        ("vsock", libc::AF_VSOCK),
    ];
    all(families.map(|(name, family)| {
        (
            name.to_owned(),
            denied(sys!(
                SYS_socketpair,
                family,
                libc::SOCK_STREAM,
                0,
                &mut [0; 8]
            )),
        )
    }))
}

pub(crate) fn raw_sockets(_: &Facts) -> Outcome {
    let protocols = [
        ("IP", libc::IPPROTO_RAW),
        ("ICMP", libc::IPPROTO_ICMP),
        ("TCP", libc::IPPROTO_TCP),
    ];
    let v4 = protocols.map(|(name, protocol)| {
        (
            name.to_owned(),
            denied(socket(libc::AF_INET, libc::SOCK_RAW, protocol)),
        )
    });
    let v6 = (
        "IPv6".to_owned(),
        denied(socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW)),
    );
    all(v4.into_iter().chain([v6]))
}

pub(crate) fn interfaces_beside_loopback() -> Vec<String> {
    let devices = fs_err::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = devices
        .lines()
        .skip(2)
        .filter_map(|line| line.split(':').next());
    // Devices that every namespace gets, and that lead nowhere.
    let idle = [
        "lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0",
        "ip6gre0",
    ];
    names
        .map(str::trim)
        .filter(|name| !idle.contains(name))
        .map(str::to_owned)
        .collect()
}

pub(crate) fn interfaces(_: &Facts) -> Outcome {
    let beside = interfaces_beside_loopback();
    if beside.is_empty() {
        held("loopback alone")
    } else {
        broke(beside.join(", "))
    }
}

/// Connecting a datagram socket asks for a route and sends nothing.
pub(crate) fn routes(_: &Facts) -> Outcome {
    let targets = [
        "192.0.2.1:9",
        "169.254.169.254:80",
        "10.0.0.1:53",
        "[2001:db8::1]:9",
        "[fd00:ec2::254]:80",
    ];
    all(targets.map(|target| {
        let local = if target.starts_with('[') {
            "[::]:0"
        } else {
            "0.0.0.0:0"
        };
        let outcome = match UdpSocket::bind(local).and_then(|socket| socket.connect(target)) {
            Ok(()) => broke("there is a route"),
            Err(error) => held(error.to_string()),
        };
        (target.to_owned(), outcome)
    }))
}

pub(crate) fn host_port(facts: &Facts) -> Outcome {
    let Some(port) = facts.host_port else {
        return broke("not tried: no --host-port");
    };
    all([
        "127.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "[::1]",
        "10.0.2.2",
        "172.17.0.1",
    ]
    .map(|host| {
        let outcome = match format!("{host}:{port}").parse::<SocketAddr>() {
            Ok(address) => match TcpStream::connect_timeout(&address, SOON) {
                Ok(_) => broke("connected"),
                Err(error) => held(error.to_string()),
            },
            Err(error) => broke(error.to_string()),
        };
        (host.to_owned(), outcome)
    }))
}

/// Abstract sockets belong to the network namespace, not to the file system.
pub(crate) fn abstract_socket(facts: &Facts) -> Outcome {
    let Some(name) = &facts.abstract_socket else {
        return broke("not tried: no --abstract-socket");
    };
    let listed =
        fs_err::read_to_string("/proc/net/unix").is_ok_and(|all| all.contains(name.as_str()));
    let connected = UnixAddress::from_abstract_name(name)
        .and_then(|address| UnixStream::connect_addr(&address));
    match connected {
        Ok(_) => broke("connected"),
        Err(_) if listed => broke("it is listed"),
        Err(error) => held(error.to_string()),
    }
}

/// The runner's own door hears the runner alone; being closed at once counts as not being heard.
pub(crate) fn link_door(_: &Facts) -> Outcome {
    use std::io::{Read as _, Write as _};
    let path = "/run/nacre/link";
    let mut door = match UnixStream::connect(path) {
        Ok(door) => door,
        Err(error) => return held(error.to_string()),
    };
    let _ = door.set_read_timeout(Some(SOON));
    let _ = door.write_all(b"\0\0\0\x02{}");
    match door.read(&mut [0; 16]) {
        Ok(0) => held("closed without a word"),
        Ok(length) => broke(format!("it answered {length} bytes")),
        Err(error) => held(error.to_string()),
    }
}

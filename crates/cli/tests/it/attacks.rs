//! Tricks that take two sandboxes, or a sandbox and the host. `docs/attacks.md` has all of them.

use std::collections::BTreeSet;

use crate::world::World;

/// Whoever answers on every port of an address, as a scan from there sees it.
const SCAN: &str = r"
import socket, sys
for port in range(1, 65536):
    s = socket.socket()
    s.settimeout(0.2)
    try:
        s.connect((sys.argv[1], port))
        # One that is given this very port for its own end meets itself.
        if s.getsockname() != s.getpeername():
            print(port)
    except OSError:
        pass
    s.close()
";

fn listening_on_the_host() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let text = fs_err::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // 0A is a socket that listens.
            if fields.get(3) == Some(&"0A") {
                all.insert(fields[1].to_owned());
            }
        }
    }
    all
}

fn with_port(port: u16) -> String {
    format!(":{port:04X}")
}

#[test]
fn what_listens_in_a_sandbox_is_reached_by_no_sibling_and_not_from_the_host() {
    let world = World::new();
    let (one, two) = (world.create(&[]), world.create(&["--net", "proxy"]));
    // A port that nobody else on this machine has.
    let port = 47_315;
    let before = listening_on_the_host();
    assert!(!before.iter().any(|at| at.ends_with(&with_port(port))));
    let serve = format!(
        "cd /tmp && (setsid python3 -m http.server --bind 0.0.0.0 {port} >/dev/null 2>&1 &) && \
         for i in $(seq 200); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))' \
         2>/dev/null && exit 0; sleep 0.05; done; exit 1"
    );
    world.says(&one, &serve);
    let after = listening_on_the_host();
    assert!(
        !after.iter().any(|at| at.ends_with(&with_port(port))),
        "a port of a sandbox is open on the host"
    );
    let scan = format!("python3 -c '{SCAN}' 127.0.0.1");
    let seen = world.says(&one, &scan);
    assert_eq!(seen, port.to_string(), "the scan sees what is there");
    // The other has its own loopback, where the proxy is and nothing else.
    assert_eq!(world.says(&two, &scan), "3128");
    let interfaces = "ls /sys/class/net 2>/dev/null || cut -d: -f1 /proc/net/dev | tail -n +3";
    assert_eq!(world.says(&two, interfaces).trim(), "lo");
    // Nor does its way out lead to the host, to the sibling or to itself.
    for target in [
        format!("127.0.0.1:{port}"),
        "127.0.0.1:22".to_owned(),
        "[::1]:443".to_owned(),
        "0.0.0.0:443".to_owned(),
    ] {
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {target} HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3"
        );
        let answer = world
            .nacre
            .run(["sandbox", "exec", &two, "--", "bash", "-c", &script]);
        assert!(answer.stdout.contains(" 403 "), "{target}: {answer:?}");
    }
}

#[test]
fn what_the_host_lends_cannot_be_written_by_any_remount() {
    let world = World::new();
    let id = world.create(&[]);
    let tries = "\
        for way in 'mount -o remount,rw /usr' 'mount -o remount,rw,bind /usr' \
                   'mount --bind /usr /mnt && mount -o remount,rw /mnt' \
                   'unshare -m mount -o remount,rw /usr' \
                   'unshare -Urm mount -o remount,rw,bind /usr' \
                   'umount /usr'; do \
            sh -c \"$way\" >/dev/null 2>&1; \
            touch /usr/planted-by-a-test 2>/dev/null && echo \"$way\"; \
        done; mkdir -p /tmp/top /tmp/work; \
        unshare -Urm sh -c 'mount -t overlay o -o lowerdir=/usr,upperdir=/tmp/top,workdir=/tmp/work /usr && touch /usr/planted-by-a-test' 2>/dev/null; \
        true";
    assert_eq!(world.says(&id, tries), "");
    assert!(!std::path::Path::new("/usr/planted-by-a-test").exists());
}

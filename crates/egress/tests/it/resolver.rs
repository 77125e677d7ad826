//! The program itself, with a name server of the test's: who is asked, and how often.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use wire::Frame;
use wire::keeper::{EgressOrder, EgressSockets};

/// Where nobody else on the machine has a name server.
const NAME_SERVER: &str = "127.77.53.1";

struct Running {
    child: Child,
    door: PathBuf,
    directory: PathBuf,
    _lifeline: UnixStream,
}

impl Running {
    /// Starts the program where only our name server is known; `namespaces` are `unshare`'s.
    fn start(
        name: &str,
        namespaces: &str,
        prepare: &str,
        allow: &[&str],
        private: &[&str],
    ) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "this test mounts a file of its own over resolv.conf and needs root"
        );
        let directory = std::env::temp_dir().join(format!("nacre-{name}-{}", std::process::id()));
        fs_err::create_dir_all(directory.join("log")).expect("a directory");
        let place = |name: &str| directory.join(name).display().to_string();
        fs_err::write(
            place("resolv.conf"),
            format!("nameserver {NAME_SERVER}\noptions timeout:1 attempts:1\n"),
        )
        .expect("written");
        fs_err::write(place("nsswitch.conf"), "hosts: files dns\n").expect("written");
        let script = format!(
            "{prepare} mount --bind {} /etc/resolv.conf && mount --bind {} /etc/nsswitch.conf && exec {}",
            place("resolv.conf"),
            place("nsswitch.conf"),
            env!("CARGO_BIN_EXE_nacre-egress"),
        );
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let child = Command::new("unshare")
            .args(namespaces.split(' '))
            .args(["sh", "-c", &script])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .spawn()
            .expect("unshare (util-linux) runs");
        let door = directory.join("door");
        let listener = UnixListener::bind(&door).expect("a door");
        let order = EgressOrder {
            allow: allow.iter().map(|r| (*r).to_owned()).collect(),
            private: private.iter().map(|p| (*p).to_owned()).collect(),
            upstream: None,
            log: place("log"),
            passes: None,
            user: 65_533,
        };
        let sockets = EgressSockets {
            door: true,
            port: false,
        };
        wire::pass::send(
            &ours,
            &Frame::control(&(order, sockets)),
            &[listener.as_fd()],
        )
        .expect("the order is sent");
        Self {
            child,
            door,
            directory,
            _lifeline: ours,
        }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(&self.door).expect("the door is open");
        stream.write_all(request.as_bytes()).expect("it is asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// What its network namespace has sent: packets, datagrams, connections.
    fn sent(&self) -> [u64; 3] {
        let path = format!("/proc/{}/net/snmp", self.child.id());
        let text = fs_err::read_to_string(Path::new(&path)).expect("counters");
        [
            ("Ip:", "OutRequests"),
            ("Udp:", "OutDatagrams"),
            ("Tcp:", "ActiveOpens"),
        ]
        .map(|(protocol, counter)| {
            let mut lines = text.lines().filter(|line| line.starts_with(protocol));
            let mut words = || lines.next().expect("a line").split_whitespace();
            let place = words()
                .position(|word| word == counter)
                .expect("the counter");
            words()
                .nth(place)
                .expect("a value")
                .parse()
                .expect("a number")
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs_err::remove_dir_all(&self.directory);
    }
}

const REFUSED: [&str; 7] = [
    "CONNECT stolen-data.evil.example:443 HTTP/1.1\r\n\r\n",
    "GET http://stolen-data.evil.example/ HTTP/1.1\r\n\r\n",
    "CONNECT 203.0.113.9:443 HTTP/1.1\r\n\r\n",
    "CONNECT [2606:4700::1111]:443 HTTP/1.1\r\n\r\n",
    "CONNECT localhost:443 HTTP/1.1\r\n\r\n",
    "CONNECT 2130706433:443 HTTP/1.1\r\n\r\n",
    "CONNECT evil.example\0.pypi.org:443 HTTP/1.1\r\n\r\n",
];

#[test]
fn under_an_empty_list_no_query_and_no_packet_leaves() {
    let empty = "ip link set lo up &&";
    let running = Running::start("deny-all", "--net --mount", empty, &[], &[]);
    for request in REFUSED {
        let answer = running.ask(request);
        assert!(
            answer.contains("X-Nacre-Egress: refused"),
            "{request:?}: {answer}"
        );
    }
    assert_eq!(running.sent(), [0, 0, 0]);
    drop(running);
    // The same counters do move for a name that is listed.
    let listed = Running::start("listed", "--net --mount", empty, &["pypi.org"], &[]);
    let answer = listed.ask("CONNECT pypi.org:443 HTTP/1.1\r\n\r\n");
    assert!(answer.contains("reason=unresolved"), "{answer}");
    assert!(listed.sent()[1] > 0, "{:?}", listed.sent());
}

/// Public by its number, and yet this machine: what listens there may count on being reached from
/// within alone.
#[test]
fn an_address_of_an_interface_is_refused_whatever_the_list_says() {
    let interfaces = "ip link set lo up && ip address add 9.9.9.9/32 dev lo && \
        ip -6 address add 2620:fe::9/128 dev lo &&";
    let list = ["9.9.9.9:80", "[2620:fe::9]:80", "9.9.9.10:80"];
    let running = Running::start("interfaces", "--net --mount", interfaces, &list, &[]);
    for address in ["9.9.9.9", "[2620:fe::9]"] {
        let answer = running.ask(&format!("GET http://{address}/ HTTP/1.1\r\n\r\n"));
        assert!(answer.contains("reason=host"), "{answer}");
    }
    assert_eq!(running.sent(), [0, 0, 0]);
    // Its neighbour is somebody else, and is tried.
    let answer = running.ask("GET http://9.9.9.10/ HTTP/1.1\r\n\r\n");
    assert!(answer.contains("reason=unreachable"), "{answer}");
}

/// A name server that gives 127.0.0.1 the first time and 127.0.0.2 ever after.
fn rebinding_name_server() -> Arc<Mutex<Vec<String>>> {
    let socket = UdpSocket::bind((NAME_SERVER, 53)).expect("port 53 of an address of our own");
    let questions = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&questions);
    std::thread::spawn(move || {
        let mut packet = [0u8; 512];
        let mut addresses_given = 0u8;
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            let (name, end) = question(&packet[..length]);
            let is_a = packet[end..end + 2] == [0, 1];
            let mut answer = packet[..end + 4].to_vec();
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            answer[6..12].copy_from_slice(&[0, u8::from(is_a), 0, 0, 0, 0]);
            if is_a {
                noted.lock().expect("not poisoned").push(name);
                addresses_given = (addresses_given + 1).min(2);
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                answer.extend([127, 0, 0, addresses_given]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    questions
}

/// The name that is asked for, and where its type stands.
fn question(packet: &[u8]) -> (String, usize) {
    let mut labels = Vec::new();
    let mut at = 12;
    while packet[at] != 0 {
        let length = usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..=at + length]).into_owned());
        at += length + 1;
    }
    (labels.join("."), at + 1)
}

#[test]
fn a_name_is_asked_for_once_and_the_address_that_came_is_dialled() {
    let questions = rebinding_name_server();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npearl");
            let _ = stream.read(&mut [0u8; 1024]);
        }
    });
    let rule = format!("*.test:{port}");
    // The first address is excepted, the one that it is turned into is not.
    let running = Running::start("rebind", "--mount", "", &[&rule], &["127.0.0.1"]);
    for request in REFUSED {
        assert!(running.ask(request).contains("X-Nacre-Egress: refused"));
    }
    assert!(questions.lock().expect("not poisoned").is_empty());
    let request = format!("GET http://rebind.test:{port}/ HTTP/1.1\r\n\r\n");
    let first = running.ask(&request);
    assert!(first.ends_with("pearl"), "{first}");
    let second = running.ask(&request);
    assert!(second.contains("reason=loopback"), "{second}");
    assert_eq!(
        *questions.lock().expect("not poisoned"),
        ["rebind.test", "rebind.test"]
    );
}

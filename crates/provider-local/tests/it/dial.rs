//! Connections to programs in a sandbox.

use std::io::Write as _;
use std::os::fd::AsFd as _;

use provider::Provider as _;
use tokio::io::AsyncReadExt as _;

use crate::engine::bare;
use crate::home::TestHome;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_listens_on_either_address_of_localhost_is_dialled() {
    let home = TestHome::new("dial6");
    let local = home.open();
    let id = bare(&local).await;
    let pid = local.show(id).await.expect("it is there").pid;
    for (address, port) in [("127.0.0.1", 4004), ("[::1]", 6006)] {
        let refused = local.dial(id, port).await.err().expect("nobody listens");
        assert!(refused.to_string().contains("nothing listens"), "{refused}");
        let listener = listen_inside(pid.expect("it runs"), &format!("{address}:{port}"));
        let mut dialled = local.dial(id, port).await.expect("somebody listens");
        let (mut accepted, _) = listener.accept().expect("a connection");
        accepted.write_all(b"pearl").expect("it is taken");
        drop(accepted);
        let mut read = String::new();
        dialled.read_to_string(&mut read).await.expect("it is read");
        assert_eq!(read, "pearl");
    }
    home.clear().await;
}

/// A listener in the network namespace of a process.
fn listen_inside(pid: i32, address: &str) -> std::net::TcpListener {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let namespace = fs_err::File::open(format!("/proc/{pid}/ns/net"))?;
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind))?;
            std::net::TcpListener::bind(address)
        });
        inside.join().expect("it does not panic").expect("a port")
    })
}

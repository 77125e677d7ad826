//! Sandboxes that are places to work in, from the host's side.

use provider::{ExecSpec, Origin, Provider as _, SandboxSpec};
use tokio::io::AsyncReadExt as _;

use crate::home::TestHome;

/// Connects as whoever runs it, and prints what it is told before the other side hangs up.
const KNOCK: &str = r#"
use IO::Socket::UNIX;
$SIG{PIPE} = "IGNORE";
my $s = IO::Socket::UNIX->new(Peer => "/run/nacre/link") or die "closed: $!";
print $s "hello\n";
print while <$s>;
print "hung up\n";
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_link_door_opens_to_nobody_but_pid_1() {
    let home = TestHome::new("knock");
    let local = home.open();
    let spec = SandboxSpec::from(Origin::Bare);
    let id = local.create(&spec).await.expect("a sandbox").id;
    let mut link = local.serve(id, "link").await.expect("a door");
    for user in [None, Some("user".to_owned())] {
        let knock = ExecSpec {
            user: user.clone(),
            ..ExecSpec::new(["perl", "-e", KNOCK])
        };
        let exec = local.exec(id, knock).await.expect("it starts");
        let heard = tokio::select! {
            _ = link.accept() => panic!("{user:?} was let in"),
            finished = exec.finish() => finished.expect("it ends").stdout,
        };
        assert_eq!(String::from_utf8_lossy(&heard), "hung up\n", "{user:?}");
    }
    // At another door the same is heard.
    let mut other = local.serve(id, "other").await.expect("a door");
    let script = KNOCK.replace("/link", "/other");
    let exec = local.exec(id, ExecSpec::new(["perl", "-e", &script]));
    let exec = exec.await.expect("it starts");
    let mut stream = other.accept().await.expect("it is let in");
    let mut said = [0; 6];
    stream
        .read_exact(&mut said)
        .await
        .expect("it says something");
    assert_eq!(&said, b"hello\n");
    drop(stream);
    exec.finish().await.expect("it ends");
    home.clear().await;
}

//! A boot whose words lead astray.

use fs_err as fs;
use wire::link::{FromRunner, PhaseState, Repo};

use super::world::with_whole;

#[test]
fn a_repository_is_put_nowhere_but_below_the_workspace() {
    with_whole(async |mut whole, _| {
        fs::create_dir("/home/user/elsewhere").unwrap();
        let workspace = "/home/user/workspace";
        fs::create_dir(workspace).unwrap();
        std::os::unix::fs::symlink("/home/user/elsewhere", format!("{workspace}/link")).unwrap();
        for path in [workspace, "/home/user/elsewhere"] {
            std::os::unix::fs::chown(path, Some(1000), Some(1000)).unwrap();
        }
        let (mut boot, mut place) = (whole.boot(), 0);
        for path in ["../elsewhere", "/home/user/elsewhere", "link/app", "-x", ""] {
            boot.repos = vec![Repo {
                url: "/nowhere".to_owned(),
                path: Some(path.to_owned()),
                ..Repo::default()
            }];
            whole.start(boot.clone());
            whole
                .heard_after(place, path, |frame| {
                    matches!(frame, FromRunner::Phase(phase)
                        if phase.name == "workspace" && phase.state == PhaseState::Failed)
                })
                .await;
            whole.kill().await;
            place = whole.hub.heard().len();
        }
        let left = fs::read_dir("/home/user/elsewhere").unwrap().count();
        assert_eq!(left, 0);
    });
}

use std::rc::Rc;
use std::time::Duration;

use fs_err as fs;
use workplace::services::{LOG_LIMIT, Name, Restart, Services, Status};

use crate::world::{
    World, eventually, in_world, in_world_without_cgroup, is_alive, service, status_becomes,
};

fn log_of(services: &Services, name: &str) -> String {
    let name = Name::new(name).unwrap();
    let mut follow = services.log(&name).unwrap().tail(u64::MAX);
    let mut all = Vec::new();
    loop {
        match follow.ready() {
            bytes if bytes.is_empty() => return String::from_utf8_lossy(&all).into_owned(),
            bytes => all.extend(bytes),
        }
    }
}

async fn logged(services: &Services, name: &str, text: &str) -> String {
    eventually(text, || log_of(services, name).contains(text)).await;
    log_of(services, name)
}

/// The number after `pid=` in a service's log.
async fn pid_in_log(services: &Services, name: &str) -> i32 {
    let log = logged(services, name, "pid=").await;
    let digits: String = log
        .rsplit("pid=")
        .next()
        .unwrap()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

#[test]
fn what_runs_here_knows_the_screen() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let command = "echo \"at $DISPLAY: $FROM_SANDBOX\"; exec sleep 1000";
        services.start(service("looker", command)).unwrap();
        let log = logged(&services, "looker", "at ").await;
        assert!(log.ends_with("at :99: yes\n"), "{log}");
    });
}

#[test]
fn a_service_runs_as_the_user_in_the_workspace_and_its_output_is_kept() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let info = services
            .start(service("web", "id -u; pwd; echo oops >&2; exec sleep 1000"))
            .unwrap();
        assert_eq!(info.status, Status::Restarting);
        status_becomes(&services, "web", Status::Running).await;
        let log = logged(&services, "web", "oops").await;
        assert!(log.contains("4242\n"), "{log}");
        assert!(log.contains(world.place.workspace.as_str()), "{log}");
        let info = &services.list()[0];
        assert!(info.pid.is_some() && info.started_at.is_some() && info.exit_code.is_none());
    });
}

#[test]
fn a_service_that_is_done_is_stopped_and_one_that_fails_too_often_has_failed() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        services.start(service("done", "echo fine")).unwrap();
        services.start(service("bad", "echo try; exit 7")).unwrap();
        let mut once = service("once", "exit 3");
        once.restart = Restart::Never;
        services.start(once).unwrap();
        status_becomes(&services, "done", Status::Stopped).await;
        status_becomes(&services, "once", Status::Failed).await;
        status_becomes(&services, "bad", Status::Failed).await;
        let info = services.info(&Name::new("bad").unwrap()).unwrap();
        assert_eq!((info.exit_code, info.restarts), (Some(7), 3));
        assert_eq!(log_of(&services, "bad").matches("try\n").count(), 4);
        assert!(info.ended_at.is_some());
    });
}

#[test]
fn a_directory_that_is_not_there_is_said() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let mut lost = service("lost", "true");
        lost.cwd = Some("no/such/place".into());
        services.start(lost).unwrap();
        status_becomes(&services, "lost", Status::Failed).await;
        let info = services.info(&Name::new("lost").unwrap()).unwrap();
        assert!(info.message.unwrap().contains("no/such/place"));
    });
}

#[test]
fn starting_a_name_again_replaces_it_and_its_late_end_changes_nothing() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        // Takes its time to end, and ends badly.
        let slow = "trap 'sleep 0.2; exit 9' TERM; echo pid=$$; while :; do sleep 0.01; done";
        services.start(service("web", slow)).unwrap();
        let old = pid_in_log(&services, "web").await;
        services
            .start(service("web", "echo new; exec sleep 1000"))
            .unwrap();
        logged(&services, "web", "new").await;
        assert!(
            !is_alive(old),
            "the old one is gone before the new one starts"
        );
        let info = services.info(&Name::new("web").unwrap()).unwrap();
        assert_eq!((info.status, info.exit_code), (Status::Running, None));
        assert_eq!(services.list().len(), 1);
    });
}

#[test]
fn stopping_ends_children_that_double_forked_and_left_the_session() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let daemon =
            "(setsid sh -c 'trap \"\" TERM; echo pid=$$; exec sleep 1000' &) ; exec sleep 1000";
        services.start(service("web", daemon)).unwrap();
        let pid = pid_in_log(&services, "web").await;
        assert!(is_alive(pid));
        let info = services.stop(&Name::new("web").unwrap()).await.unwrap();
        assert_eq!(info.status, Status::Stopped);
        eventually("the daemon is gone", || !is_alive(pid)).await;
    });
}

#[test]
fn a_service_that_ends_leaves_no_daemon_behind() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let daemon = "(setsid sh -c 'echo pid=$$; exec sleep 1000' &) ; sleep 0.2; exit 0";
        services.start(service("web", daemon)).unwrap();
        let pid = pid_in_log(&services, "web").await;
        status_becomes(&services, "web", Status::Stopped).await;
        eventually("the daemon is gone", || !is_alive(pid)).await;
    });
}

#[test]
fn without_a_cgroup_daemons_are_found_by_their_mark() {
    in_world_without_cgroup(|world: Rc<World>| async move {
        let services = world.services();
        let daemon =
            "(setsid sh -c 'trap \"\" TERM; echo pid=$$; exec sleep 1000' &) ; exec sleep 1000";
        services.start(service("web", daemon)).unwrap();
        let pid = pid_in_log(&services, "web").await;
        services.stop(&Name::new("web").unwrap()).await.unwrap();
        eventually("the daemon is gone", || !is_alive(pid)).await;
        let daemon = "(setsid sh -c 'echo pid=$$; exec sleep 1000' &) ; sleep 0.2; exit 0";
        services.start(service("done", daemon)).unwrap();
        let pid = pid_in_log(&services, "done").await;
        status_becomes(&services, "done", Status::Stopped).await;
        eventually("the daemon is gone", || !is_alive(pid)).await;
    });
}

#[test]
fn a_service_deaf_to_the_request_to_end_is_killed() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let deaf = "trap '' TERM; echo pid=$$; while :; do sleep 0.05; done";
        services.start(service("web", deaf)).unwrap();
        let pid = pid_in_log(&services, "web").await;
        services.stop(&Name::new("web").unwrap()).await.unwrap();
        assert!(!is_alive(pid));
    });
}

#[test]
fn a_service_of_many_processes_is_ended_whole() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let many = "for i in $(seq 100); do setsid sleep 7654 & done; echo started; wait";
        services.start(service("many", many)).unwrap();
        logged(&services, "many", "started").await;
        services.stop(&Name::new("many").unwrap()).await.unwrap();
        let left = || {
            let listing = std::process::Command::new("pgrep")
                .args(["-u", "4242", "-f", "sleep 7654"])
                .output()
                .unwrap();
            listing.stdout.is_empty()
        };
        eventually("none is left", left).await;
    });
}

#[test]
fn a_flood_of_output_stays_within_the_limit() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let flood = "head -c 104857600 /dev/zero; echo; echo the end";
        services.start(service("flood", flood)).unwrap();
        logged(&services, "flood", "the end").await;
        let logs = fs::read_dir(world.place.state.join("logs")).unwrap();
        let size: u64 = logs
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(size <= LOG_LIMIT, "{size}");
    });
}

#[test]
fn what_ran_before_runs_again_and_what_was_stopped_does_not() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        services
            .start(service("web", "echo up; exec sleep 1000"))
            .unwrap();
        services.start(service("off", "exec sleep 1000")).unwrap();
        services.expose(3000).unwrap();
        logged(&services, "web", "up").await;
        services.stop(&Name::new("off").unwrap()).await.unwrap();
        services.rest().await;

        let again = world.services();
        assert_eq!(again.list().len(), 2);
        assert!(
            again
                .list()
                .iter()
                .all(|info| info.status == Status::Stopped)
        );
        again.resume();
        status_becomes(&again, "web", Status::Running).await;
        assert_eq!(
            again.info(&Name::new("off").unwrap()).unwrap().status,
            Status::Stopped
        );
        let before = again.info(&Name::new("web").unwrap()).unwrap().pid;
        let same = again.ensure(service("web", "echo up; exec sleep 1000"));
        assert_eq!(same.unwrap().pid, before, "it is not started twice");
        assert_eq!(again.exposed(), Some(3000));
        assert!(
            log_of(&again, "web").contains("up"),
            "its log is gone on with"
        );
    });
}

#[test]
fn one_started_anew_while_it_is_removed_is_kept() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let slow = "trap 'sleep 0.2; exit 0' TERM; echo up; while :; do sleep 0.01; done";
        services.start(service("web", slow)).unwrap();
        logged(&services, "web", "up").await;
        let name = Name::new("web").unwrap();
        let removing = services.clone();
        let removed = tokio::task::spawn_local(async move {
            let name = Name::new("web").unwrap();
            removing.remove(&name).await.unwrap();
        });
        tokio::task::yield_now().await;
        services.start(service("web", "exec sleep 1000")).unwrap();
        removed.await.unwrap();
        status_becomes(&services, "web", Status::Running).await;
        services.remove(&name).await.unwrap();
        assert!(services.list().is_empty());
        assert!(services.log(&name).is_err());
    });
}

#[test]
fn a_spoiled_state_file_costs_nothing_else() {
    in_world(|world: Rc<World>| async move {
        fs::create_dir_all(&world.place.state).unwrap();
        let path = world.place.state.join("services.json");
        for spoiled in ["", "{", "[]", "{\"services\": 7}", "\u{0}\u{1}"] {
            fs::write(&path, spoiled).unwrap();
            assert!(world.services().list().is_empty());
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::net::UnixListener::bind(&path).unwrap();
        let services = world.services();
        services.start(service("web", "exec sleep 1000")).unwrap();
        status_becomes(&services, "web", Status::Running).await;
    });
}

#[test]
fn exposing_300_and_3000_differ_and_our_ports_are_refused() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        let text = || fs::read_to_string(world.place.state.join("caddy/user.caddy")).unwrap();
        services.expose(3000).unwrap();
        assert!(text().contains("localhost:3000 "));
        services.expose(300).unwrap();
        assert!(text().contains("localhost:300 "));
        for ours in [
            0, 4000, 4096, 5900, 6080, 8765, 9000, 20000, 4001, 4002, 4003,
        ] {
            assert!(services.expose(ours).is_err(), "{ours}");
        }
        assert_eq!(services.exposed(), Some(300));
    });
}

#[test]
fn a_busy_service_is_seen_to_use_the_processor() {
    in_world(|world: Rc<World>| async move {
        let services = world.services();
        services
            .start(service("busy", "echo on; while :; do :; done"))
            .unwrap();
        services.start(service("idle", "exec sleep 1000")).unwrap();
        logged(&services, "busy", "on").await;
        let used = |name: &str| {
            services
                .processor_time()
                .get(&Name::new(name).unwrap())
                .copied()
        };
        eventually("it used some", || {
            used("busy") > Some(Duration::from_millis(50))
        })
        .await;
        assert!(used("idle") < Some(Duration::from_millis(500)));
    });
}

//! Keeping one service running: start it, follow it, start it again or leave it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use wire::guest::Exited;

use super::saved::Wanted;
use super::slot::{Slot, Status};
use super::{Restart, Shared};
use crate::command::{exec_as, may_pass};
use crate::hands::{HandsError, Said};

/// A login shell where there is one worth the name.
const SHELL: &str =
    r#"if command -v bash >/dev/null 2>&1; then exec bash -lc "$0"; fi; exec sh -lc "$0""#;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// How long the kernel gets to kill.
const DEATH: Duration = Duration::from_secs(10);

/// How one run ended.
enum End {
    Asked(Option<Exited>),
    Exited(Exited),
    NotStarted(HandsError),
    /// PID 1 no longer knows of it.
    Lost,
}

pub(super) async fn keep(shared: Rc<Shared>, slot: Rc<Slot>, before: Option<Rc<Slot>>) {
    if let Some(before) = before {
        // Its port is free only once it is gone.
        before.stop.cancel();
        before.ended.cancelled().await;
    }
    let mut failures = 0;
    while !slot.stop.is_cancelled() {
        let since = Instant::now();
        let end = run(&shared, &slot).await;
        if since.elapsed() >= shared.pace.healthy {
            failures = 0;
        }
        failures += 1;
        let next = judge(&shared, &slot, &end, failures);
        record(&shared, &slot, &end, next);
        let Next::After(delay) = next else { break };
        tokio::select! {
            () = sleep(delay) => {}
            () = slot.stop.cancelled() => {}
        }
    }
    {
        let mut report = slot.report.borrow_mut();
        report.pid = None;
        if report.status == Status::Restarting {
            report.status = Status::Stopped;
        }
    }
    slot.ended.cancel();
    shared.changed();
}

async fn run(shared: &Shared, slot: &Slot) -> End {
    let definition = &slot.definition;
    let place = &shared.place;
    let mut exec = exec_as(
        &place.user,
        ["sh", "-c", SHELL, definition.command.as_str()],
    );
    let cwd = match &definition.cwd {
        Some(cwd) => place.workspace.join(cwd),
        None => place.workspace.clone(),
    };
    exec.cwd = Some(cwd.as_str().into());
    exec.env = vec![("WORKSPACE_DIR".into(), place.workspace.as_str().into())];
    slot.log.write(b"[nacre] starting\n");
    let mut running = match shared.hands.exec_whole(exec).await {
        Ok(running) => running,
        Err(error) => return End::NotStarted(error),
    };
    {
        let mut report = slot.report.borrow_mut();
        report.status = Status::Running;
        report.pid = Some(running.pid);
        report.started_at = Some(shared.clock.now());
        (report.ended_at, report.exit_code, report.message) = (None, None, None);
    }
    shared.changed();
    let _ = running.input.end().await;
    let mut output = pin!(async {
        loop {
            match running.output.next().await {
                Ok(Said::Stdout(bytes) | Said::Stderr(bytes)) => slot.log.write(&bytes),
                Ok(Said::Exited(exited)) => return Some(exited),
                Err(_) => return None,
            }
        }
    });
    tokio::select! {
        exited = &mut output => return exited.map_or(End::Lost, End::Exited),
        () = slot.stop.cancelled() => {}
    }
    // Going on to read: what waits to write cannot end.
    let _ = running.input.signal(SIGTERM).await;
    if let Ok(exited) = timeout(shared.pace.grace, &mut output).await {
        return End::Asked(exited);
    }
    let _ = running.input.signal(SIGKILL).await;
    // Whatever is left after that dies with the connection.
    End::Asked(timeout(DEATH, &mut output).await.ok().flatten())
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Stop,
    After(Duration),
}

fn judge(shared: &Shared, slot: &Slot, end: &End, failures: u32) -> Next {
    let pace = &shared.pace;
    let again = match end {
        End::Asked(_) => false,
        End::Exited(exited) => exited.code != 0,
        End::NotStarted(error) => may_pass(error),
        End::Lost => true,
    };
    if !again || slot.definition.restart == Restart::Never || failures > pace.budget {
        return Next::Stop;
    }
    let doubled = pace.first_delay * 2u32.saturating_pow(failures.saturating_sub(1).min(16));
    Next::After(doubled.min(pace.last_delay))
}

fn record(shared: &Shared, slot: &Slot, end: &End, next: Next) {
    let mut report = slot.report.borrow_mut();
    report.pid = None;
    report.ended_at = Some(shared.clock.now());
    report.exit_code = match end {
        End::Exited(exited) | End::Asked(Some(exited)) => Some(exited.code),
        _ => None,
    };
    let ended_well = match end {
        End::Asked(_) => true,
        End::Exited(exited) => exited.code == 0,
        _ => false,
    };
    report.message = match end {
        End::NotStarted(error) => Some(error.to_string()),
        End::Lost => Some("it was lost: PID 1 no longer knows of it".to_owned()),
        _ => None,
    };
    report.status = match next {
        Next::After(_) => {
            report.restarts += 1;
            Status::Restarting
        }
        Next::Stop if ended_well => Status::Stopped,
        Next::Stop => Status::Failed,
    };
    let line = match (&report.message, report.exit_code) {
        (Some(message), _) => format!("[nacre] {message}\n"),
        (None, Some(code)) => format!("[nacre] ended with code {code}\n"),
        (None, None) => "[nacre] ended\n".to_owned(),
    };
    drop(report);
    slot.log.write(line.as_bytes());
    // One that ended by itself has had its turn; whoever asked for the end has said what is wanted.
    if matches!(
        (next, end),
        (Next::Stop, End::Exited(_) | End::NotStarted(_))
    ) && ended_well
    {
        slot.wanted.set(Wanted::Stopped);
        shared.save();
    }
    shared.changed();
}

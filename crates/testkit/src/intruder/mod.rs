//! Ways out of a sandbox, tried by somebody who is root inside it.
//!
//! Each attempt detects its own success and undoes it. None destroys anything; what would hurt
//! outside a sandbox is tried only with `--inside`. The names are stable: `docs/guarantees.md`
//! lists them.

mod budgets;
mod child;
mod devices;
mod doors;
mod facts;
mod files;
mod identity;
mod kernel;
mod mounts;
mod nested;
mod network;
mod pid_one;
mod proc_and_sys;
mod processes;
mod sys;
mod table;

use std::io::Read as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use facts::{Asked, Facts};
use sys::Errno;

/// One attempt's end.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) held: bool,
    pub(crate) detail: String,
}

pub(crate) fn held(detail: impl Into<String>) -> Outcome {
    Outcome {
        held: true,
        detail: detail.into(),
    }
}

pub(crate) fn broke(detail: impl Into<String>) -> Outcome {
    Outcome {
        held: false,
        detail: detail.into(),
    }
}

/// For a call that nobody inside has a use for: it has to be refused before the kernel looks at
/// its arguments.
pub(crate) fn filtered(result: Result<i64, Errno>) -> Outcome {
    match result {
        Err(errno @ Errno(libc::EPERM | libc::ENOSYS)) => held(errno.to_string()),
        Err(errno) => broke(format!("the kernel looked at it: {errno}")),
        Ok(value) => broke(format!("it worked: {value}")),
    }
}

/// For a call that may be made, but not like this.
pub(crate) fn denied(result: Result<i64, Errno>) -> Outcome {
    match result {
        Err(errno) => held(errno.to_string()),
        Ok(value) => broke(format!("it worked: {value}")),
    }
}

/// Held when all held; the detail is of those that did not, or of the first.
pub(crate) fn all(outcomes: impl IntoIterator<Item = (String, Outcome)>) -> Outcome {
    let outcomes: Vec<(String, Outcome)> = outcomes.into_iter().collect();
    let broken: Vec<String> = outcomes
        .iter()
        .filter(|(_, o)| !o.held)
        .map(|(what, o)| format!("{what}: {}", o.detail))
        .collect();
    if !broken.is_empty() {
        return broke(broken.join("; "));
    }
    match outcomes.first() {
        Some((what, first)) => held(format!(
            "{} tried; {what}: {}",
            outcomes.len(),
            first.detail
        )),
        None => held("there was nothing to try"),
    }
}

/// What an attempt needs to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Its success would hurt somebody else outside a sandbox.
    Inside,
    /// It takes all it can get, and gives it back.
    Budget,
    /// It takes all processes that there are.
    Bombs,
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) run: fn(&Facts) -> Outcome,
}

/// How long an attempt may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The exit code.
pub(crate) fn main() -> u8 {
    let facts = match facts::parse(std::env::args_os().skip(1)) {
        Asked::Try(facts) => facts,
        Asked::List => {
            for attempt in table::ATTEMPTS {
                say(attempt.name);
            }
            return 0;
        }
        Asked::ShowCapabilities => {
            say(&identity::effective_capabilities());
            return 0;
        }
        Asked::Wrong(why) => {
            say(&format!("{why}\n{}", facts::USAGE));
            return 2;
        }
    };
    let mut all_held = true;
    let mut holding = Vec::new();
    for attempt in table::ATTEMPTS {
        if facts
            .only
            .as_ref()
            .is_some_and(|prefix| !attempt.name.starts_with(prefix))
        {
            continue;
        }
        if attempt.needs == Needs::Bombs && !facts.bombs {
            continue;
        }
        let outcome = try_one(attempt, &facts, &mut holding);
        all_held &= outcome.held;
        let line = serde_json::json!({"name": attempt.name, "held": outcome.held, "detail": outcome.detail});
        say(&line.to_string());
    }
    if facts.hold {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }
    for pid in holding {
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    u8::from(!all_held)
}

fn try_one(attempt: &Attempt, facts: &Facts, holding: &mut Vec<Pid>) -> Outcome {
    if matches!(attempt.needs, Needs::Inside | Needs::Bombs) && !facts.inside {
        return broke("not tried: it could hurt outside a sandbox, and --inside was not given");
    }
    let body = || (attempt.run)(facts);
    if attempt.needs != Needs::Budget || !facts.hold {
        return child::in_child(LIMIT, body);
    }
    match child::start(body, || budgets::sleep_until_killed()) {
        Ok(started) => {
            let (outcome, pid) = started.outcome_and_pid(LIMIT);
            holding.push(pid);
            outcome
        }
        Err(errno) => broke(format!("could not be tried, no child: {errno}")),
    }
}

#[expect(clippy::print_stdout, reason = "its output is its purpose")]
fn say(line: &str) {
    println!("{line}");
}

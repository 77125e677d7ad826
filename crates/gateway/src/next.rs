//! What to do about a session, in a command: said by the server, so that every client says the same.

use model::session::{ClientStatus, Lifecycle};
use model::{Id, Session};
use wire::v1::Next;

pub(crate) fn step(session: Id<Session>, lifecycle: &Lifecycle, generation: u64) -> Next {
    let fault = lifecycle.fault().map(|fault| fault.message.as_str());
    let (command, why) = match lifecycle.client_status() {
        _ if lacks_agent(fault) => (
            "nacre base build --slim".to_owned(),
            "on the server's machine; then make a session anew",
        ),
        ClientStatus::Degraded => (
            format!("nacre session recover {session} --accept"),
            "goes on from what was kept",
        ),
        ClientStatus::Error => (
            format!("nacre session resume {session}"),
            "tries again; `nacre doctor` looks at the machine",
        ),
        ClientStatus::Paused | ClientStatus::Suspended if fault.is_some() => (
            format!("nacre session resume {session}"),
            "tries again; `nacre doctor` looks at the machine",
        ),
        ClientStatus::Paused | ClientStatus::Suspended => {
            (format!("nacre session resume {session}"), "")
        }
        ClientStatus::Stopped => (
            format!("nacre session fork {session}"),
            "another session that begins with its files",
        ),
        ClientStatus::Creating if generation == 0 => {
            (format!("nacre session prompt {session} TEXT"), "")
        }
        ClientStatus::Creating | ClientStatus::Resuming | ClientStatus::Migrating => {
            (format!("nacre session logs {session} --follow"), "")
        }
        ClientStatus::Running => (format!("nacre session prompt {session} TEXT"), ""),
    };
    Next {
        command,
        why: (!why.is_empty()).then(|| why.to_owned()),
    }
}

/// Its sandbox was made of something that is no base.
fn lacks_agent(fault: Option<&str>) -> bool {
    fault.is_some_and(|fault| fault.contains("there is no program \"opencode\""))
}

#[cfg(test)]
mod tests {
    use model::session::{Event, Fault, FaultCode, Generation};
    use model::{Origin, SystemClock, Timestamp};

    use super::*;

    fn failed(message: &str) -> Lifecycle {
        let begin = Event::Begin {
            origin: Origin::Bare,
            until: Timestamp::MAX,
        };
        let (starting, _) = Lifecycle::new().apply(begin).unwrap();
        let failed = Event::BootFailed {
            generation: Generation(1),
            fault: Fault {
                code: FaultCode::Boot,
                message: message.to_owned(),
            },
            at: Timestamp::UNIX_EPOCH,
        };
        starting.apply(failed).unwrap().0
    }

    #[test]
    fn a_session_that_did_not_start_is_tried_again() {
        let id = Id::new(&SystemClock);
        let next = step(id, &failed("the clone failed"), 1);
        assert_eq!(next.command, format!("nacre session resume {id}"));
    }

    #[test]
    fn one_without_an_agent_needs_a_base_first() {
        let fault = "there is no program \"opencode\" in the sandbox";
        let next = step(Id::new(&SystemClock), &failed(fault), 1);
        assert_eq!(next.command, "nacre base build --slim");
    }

    #[test]
    fn a_new_one_is_asked_something() {
        let id = Id::new(&SystemClock);
        let next = step(id, &Lifecycle::new(), 0);
        assert_eq!(next.command, format!("nacre session prompt {id} TEXT"));
    }
}

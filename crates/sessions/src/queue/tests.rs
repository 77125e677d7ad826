use super::*;

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn prompt(id: &str, channel: &str, mode: Mode, at: i64) -> Prompt {
    Prompt {
        id: id.to_owned(),
        position: 0,
        channel: channel.to_owned(),
        mode,
        status: Status::Queued,
        destination: None,
        reason: None,
        body: String::new(),
        created_at: time(at),
        dispatched_at: None,
        accepted_at: None,
        ended_at: None,
    }
}

fn boot(generation: u64, boot: &str) -> Destination {
    Destination {
        generation,
        boot: boot.to_owned(),
    }
}

fn here() -> Destination {
    boot(1, "b1")
}

/// In a word each.
fn words(steps: &[Step]) -> String {
    let word = |step: &Step| match step {
        Step::Join { prompt, others } => format!("join {} to {prompt}", others.join("+")),
        Step::Dispatch { prompt, to } => format!("send {prompt} to {}", to.boot),
        Step::Accept { prompt, .. } => format!("accept {prompt}"),
        Step::GiveBack { prompt, .. } => format!("give back {prompt}"),
        Step::End { prompt, end, .. } => format!("end {prompt}: {}", end.status().as_str()),
        Step::Cancel { channel } => format!("cancel {channel}"),
        Step::Ask { prompt } => format!("ask {prompt}"),
    };
    steps.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// A queue whose runner is there and ready.
fn ready() -> Queue {
    let mut queue = Queue::default();
    queue.open(true, time(0));
    queue.connected(here());
    queue.caught_up(time(0));
    queue.agent_ready(true, time(0));
    queue.dressed(time(0));
    queue
}

fn ask(queue: &mut Queue, id: &str, channel: &str, mode: Mode, at: i64) -> String {
    words(&queue.add(&prompt(id, channel, mode, at), time(at)))
}

fn end(queue: &mut Queue, id: &str, at: i64) -> String {
    words(&queue.ended(id, Ended::Completed, time(at)))
}

#[test]
fn a_channel_has_one_under_way_and_others_go_on_beside_it() {
    let mut queue = ready();
    assert_eq!(
        ask(&mut queue, "a", "web", Mode::Followup, 1),
        "send a to b1"
    );
    assert_eq!(ask(&mut queue, "b", "web", Mode::Followup, 1), "");
    assert_eq!(
        ask(&mut queue, "c", "slack", Mode::Followup, 1),
        "send c to b1"
    );
    assert_eq!(end(&mut queue, "a", 2), "end a: finished, send b to b1");
    assert_eq!(end(&mut queue, "a", 2), "", "its one end");
}

#[test]
fn nothing_is_sent_before_everything_is_there() {
    let mut queue = Queue::default();
    assert_eq!(ask(&mut queue, "a", "web", Mode::Followup, 1), "");
    assert_eq!(words(&queue.connected(here())), "");
    assert_eq!(words(&queue.agent_ready(true, time(2))), "");
    assert_eq!(words(&queue.caught_up(time(2))), "");
    assert_eq!(words(&queue.open(true, time(2))), "");
    assert_eq!(words(&queue.dressed(time(2))), "send a to b1");
}

#[test]
fn while_the_session_is_about_to_move_prompts_wait() {
    let mut queue = ready();
    queue.open(false, time(1));
    assert_eq!(ask(&mut queue, "a", "web", Mode::Followup, 1), "");
    queue.disconnected();
    queue.connected(boot(2, "b2"));
    queue.dressed(time(2));
    queue.caught_up(time(2));
    queue.agent_ready(true, time(2));
    assert_eq!(words(&queue.open(true, time(3))), "send a to b2");
}

#[test]
fn one_that_steers_ends_the_turn_of_its_channel_alone() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    ask(&mut queue, "b", "web", Mode::Followup, 1);
    ask(&mut queue, "c", "slack", Mode::Followup, 1);
    assert_eq!(ask(&mut queue, "d", "web", Mode::Steer, 2), "cancel web");
    assert_eq!(ask(&mut queue, "e", "web", Mode::Steer, 2), "", "told once");
    assert_eq!(end(&mut queue, "a", 3), "end a: finished, send d to b1");
    assert_eq!(end(&mut queue, "d", 4), "end d: finished, send e to b1");
    assert_eq!(end(&mut queue, "e", 5), "end e: finished, send b to b1");
}

#[test]
fn a_runner_that_was_away_is_told_to_cancel_when_it_comes_back() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    queue.accepted("a", &here());
    queue.disconnected();
    assert_eq!(ask(&mut queue, "b", "web", Mode::Steer, 2), "");
    assert_eq!(words(&queue.connected(here())), "cancel web");
    queue.dressed(time(2));
}

#[test]
fn what_is_collected_is_waited_for_and_sent_as_one() {
    let mut queue = ready();
    assert_eq!(ask(&mut queue, "a", "web", Mode::Collect, 1), "");
    assert_eq!(ask(&mut queue, "b", "web", Mode::Collect, 3), "");
    assert_eq!(queue.next_look(), Some(time(4)));
    assert_eq!(words(&queue.go_on(time(3))), "");
    assert_eq!(
        ask(&mut queue, "c", "web", Mode::Collect, 4),
        "join b+c to a, send a to b1"
    );
    assert_eq!(ask(&mut queue, "d", "web", Mode::Collect, 5), "");
    assert_eq!(queue.next_look(), None, "not while one is under way");
    assert_eq!(end(&mut queue, "a", 9), "end a: finished, send d to b1");
}

#[test]
fn what_was_sent_and_not_taken_is_sent_again_only_if_it_was_never_seen() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    queue.disconnected();
    assert_eq!(words(&queue.connected(here())), "ask a");
    queue.dressed(time(2));
    queue.caught_up(time(2));
    queue.agent_ready(true, time(2));
    for state in [
        PromptState::Received,
        PromptState::Finished,
        PromptState::Unknown,
    ] {
        assert_eq!(words(&queue.state_is("a", &here(), state, time(2))), "");
    }
    let elsewhere = boot(1, "b0");
    let never = PromptState::NeverSeen;
    assert_eq!(words(&queue.state_is("a", &elsewhere, never, time(2))), "");
    assert_eq!(
        words(&queue.state_is("a", &here(), never, time(2))),
        "give back a, send a to b1"
    );
}

#[test]
fn one_that_was_accepted_is_not_asked_for_and_goes_on() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    assert_eq!(words(&queue.accepted("a", &here())), "accept a");
    assert_eq!(words(&queue.accepted("a", &here())), "");
    queue.disconnected();
    assert_eq!(words(&queue.connected(here())), "");
    queue.dressed(time(2));
    assert_eq!(words(&queue.caught_up(time(2))), "");
    queue.agent_ready(true, time(2));
    assert_eq!(end(&mut queue, "a", 3), "end a: finished");
}

#[test]
fn a_boot_that_is_over_may_still_tell_an_end_and_then_interrupts() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    ask(&mut queue, "b", "slack", Mode::Followup, 1);
    queue.accepted("a", &here());
    queue.accepted("b", &here());
    queue.disconnected();
    assert_eq!(words(&queue.connected(boot(1, "b2"))), "");
    queue.dressed(time(2));
    assert_eq!(end(&mut queue, "a", 2), "end a: finished");
    assert_eq!(words(&queue.caught_up(time(2))), "end b: interrupted");
}

#[test]
fn a_sandbox_that_is_gone_interrupts_what_it_had_and_nothing_else() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    ask(&mut queue, "b", "web", Mode::Followup, 1);
    assert_eq!(words(&queue.sandbox_gone(7, time(2))), "");
    assert_eq!(words(&queue.sandbox_gone(1, time(2))), "end a: interrupted");
    queue.connected(boot(2, "b2"));
    queue.dressed(time(2));
    queue.caught_up(time(3));
    assert_eq!(words(&queue.agent_ready(true, time(3))), "send b to b2");
}

#[test]
fn a_runner_that_is_busy_is_not_asked_again_at_once() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    assert_eq!(words(&queue.busy("a", &here(), time(1))), "give back a");
    assert_eq!(words(&queue.go_on(time(2))), "");
    assert_eq!(queue.next_look(), Some(time(3)));
    assert_eq!(words(&queue.go_on(time(3))), "send a to b1");
}

#[test]
fn one_that_waits_can_be_withdrawn_and_one_under_way_cannot() {
    let mut queue = ready();
    ask(&mut queue, "a", "web", Mode::Followup, 1);
    ask(&mut queue, "b", "web", Mode::Followup, 1);
    assert!(queue.withdraw("b"));
    assert!(!queue.withdraw("a"));
    assert!(!queue.withdraw("nobody"));
    assert_eq!(end(&mut queue, "a", 2), "end a: finished");
    assert!(queue.is_idle());
}

#[test]
fn an_owner_that_takes_over_finds_everything_where_it_was() {
    let sent = |status| Prompt {
        status,
        destination: Some(here()),
        ..prompt("a", "web", Mode::Followup, 1)
    };
    let waiting = prompt("b", "web", Mode::Followup, 2);
    let mut queue = Queue::load([sent(Status::Dispatched), waiting.clone()]);
    queue.open(true, time(3));
    assert_eq!(words(&queue.connected(here())), "ask a");
    queue.dressed(time(2));
    let mut queue = Queue::load([sent(Status::Accepted), waiting]);
    assert_eq!(words(&queue.connected(boot(1, "b2"))), "");
    queue.dressed(time(2));
    queue.open(true, time(3));
    queue.agent_ready(true, time(3));
    assert_eq!(
        words(&queue.caught_up(time(3))),
        "end a: interrupted, send b to b2"
    );
}

use super::*;

fn event(seq: u64, body: &str) -> Told {
    let new = store::NewEvent::from_json(body).unwrap();
    Told::Numbered(Event {
        seq,
        at: model::Timestamp::UNIX_EPOCH,
        kind: new.kind().to_owned(),
        body: Arc::clone(new.body()),
    })
}

fn frames(out: &VecDeque<Batch>) -> Vec<String> {
    let frames = out.iter().flat_map(Batch::frames);
    frames
        .map(|(_, json)| String::from_utf8(json.to_vec()).unwrap())
        .collect()
}

#[test]
fn whoever_joins_gets_what_follows_and_nothing_before() {
    let feed = Feed::new(3, &[]);
    feed.tell(&[event(4, r#"{"type":"title","title":"a"}"#)]);
    let joined = feed.join();
    assert_eq!(joined.seq, 4);
    feed.tell(&[event(5, r#"{"type":"title","title":"b"}"#)]);
    let mut out = VecDeque::new();
    let given = feed.give(joined.next, &mut out);
    assert_eq!(given, Given::Upto(joined.next + 1, Some(5)));
    assert_eq!(
        frames(&out),
        [r#"{"seq":5,"at":"1970-01-01T00:00:00Z","type":"title","title":"b"}"#]
    );
}

#[test]
fn one_who_falls_behind_what_is_held_is_told_so() {
    let feed = Feed::new(0, &[]);
    let joined = feed.join();
    let long = format!(r#"{{"type":"title","title":"{}"}}"#, "x".repeat(900_000));
    for seq in 1..=6 {
        feed.tell(&[event(seq, &long)]);
    }
    let given = feed.give(joined.next, &mut VecDeque::new());
    assert_eq!(given, Given::Behind);
}

#[test]
fn an_open_part_is_given_whole_until_it_closes() {
    let feed = Feed::new(0, &[]);
    let delta = |offset: u64, text: &str| {
        let frame = FromRunner::PartDelta {
            message_id: "m".to_owned(),
            part_id: "p".to_owned(),
            offset,
            text: text.to_owned(),
        };
        Told::Passing(serde_json::to_string(&frame).unwrap().into())
    };
    feed.tell(&[delta(0, "ab"), delta(2, "cd")]);
    let moment = VecDeque::from([feed.join().moment]);
    assert!(frames(&moment)[0].contains("abcd"), "{moment:?}");
    feed.tell(&[event(
        1,
        r#"{"type":"part","message_id":"m","part_id":"p","kind":"text","text":"abcd"}"#,
    )]);
    assert_eq!(feed.join().moment.count(), 0);
}

#[test]
fn what_was_told_already_is_not_told_again() {
    let feed = Feed::new(5, &[]);
    let joined = feed.join();
    feed.tell(&[event(5, r#"{"type":"title","title":"b"}"#)]);
    assert_eq!(feed.give(joined.next, &mut VecDeque::new()), Given::Nothing);
}

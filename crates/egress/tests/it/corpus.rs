use std::net::IpAddr;

use nacre_egress::policy::Policy;
use nacre_egress::target::{Host, Target};
use nacre_egress::{Reason, TargetError};

struct Entry {
    name: String,
    target: Vec<u8>,
    /// `None`: nobody may be asked.
    resolves_to: Option<Vec<IpAddr>>,
    verdict: String,
}

fn corpus() -> Vec<Entry> {
    include_str!("corpus.txt")
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, target, resolves_to, verdict] = words[..] else {
                panic!("four words: {line}");
            };
            Entry {
                name: name.to_owned(),
                target: unescaped(target),
                resolves_to: (resolves_to != "-").then(|| {
                    let address = |text: &str| text.parse().expect("an address");
                    resolves_to.split(',').map(address).collect()
                }),
                verdict: verdict.to_owned(),
            }
        })
        .collect()
}

/// `\0`, `\t`, `\r`, `\n`, `\\` and `\u{…}`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let (meant, length) = match escape.as_bytes()[0] {
            b'0' => ('\0', 1),
            b't' => ('\t', 1),
            b'r' => ('\r', 1),
            b'n' => ('\n', 1),
            b'\\' => ('\\', 1),
            b'u' => {
                let end = escape.find('}').expect("a closed escape");
                let code = u32::from_str_radix(&escape[2..end], 16).expect("a number");
                (char::from_u32(code).expect("a character"), end + 1)
            }
            other => panic!("no such escape: {other}"),
        };
        out.push(meant);
        rest = &escape[length..];
    }
    out.push_str(rest);
    out.into_bytes()
}

/// The whole way of a request, with a resolver that answers what the corpus says.
fn verdict(policy: &Policy, entry: &Entry) -> Result<(), Reason> {
    let target = Target::parse(&entry.target, None).map_err(Reason::Target)?;
    policy.admits(&target)?;
    let found = match (&target.host, &entry.resolves_to) {
        (Host::Address(address), None) => vec![*address],
        (Host::Name(_), Some(found)) => found.clone(),
        (Host::Name(name), None) => panic!("{}: a query for {name} would leave", entry.name),
        (Host::Address(_), Some(_)) => panic!("{}: an address needs no query", entry.name),
    };
    let chosen = policy.choose(&target, &found)?;
    for address in &chosen {
        assert!(policy.admits_address(&target, *address).is_ok());
    }
    Ok(())
}

#[test]
fn every_entry_of_the_corpus_has_its_verdict() {
    let rules = ["*", "*:8080"].map(|rule| rule.parse().expect("a rule"));
    let policy = Policy::new(rules.into(), Vec::new());
    let corpus = corpus();
    assert!(corpus.len() > 120, "the whole corpus was read");
    let wrong: Vec<String> = corpus
        .iter()
        .filter_map(|entry| {
            let found = verdict(&policy, entry)
                .err()
                .map_or("allowed", |reason| reason.code());
            (found != entry.verdict)
                .then(|| format!("{}: {found}, not {}", entry.name, entry.verdict))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn long_names_are_refused_before_anyone_is_asked() {
    let label = "a".repeat(64);
    let long = vec!["a".repeat(60); 5].join(".");
    for (host, error) in [
        (label, TargetError::LongLabel),
        (long, TargetError::TooLong),
    ] {
        assert_eq!(
            Target::parse(format!("{host}:80").as_bytes(), None),
            Err(error)
        );
    }
}

#[test]
fn nothing_of_the_corpus_passes_an_empty_list() {
    for entry in corpus() {
        let admitted = Target::parse(&entry.target, None)
            .is_ok_and(|target| Policy::default().admits(&target).is_ok());
        assert!(!admitted, "{}", entry.name);
    }
}

use std::fmt::Write as _;

use crate::Nacre;

#[test]
fn every_command_says_what_it_takes() {
    let nacre = Nacre::new();
    let mut pages = String::new();
    let mut waiting = vec![Vec::<String>::new()];
    while let Some(path) = waiting.pop() {
        let ran = nacre.run(path.iter().map(String::as_str).chain(["--help"]));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let typed = [path.clone(), vec!["--help".to_owned()]].concat().join(" ");
        write!(pages, "$ nacre {typed}\n{}\n", ran.stdout).unwrap();
        for name in subcommands(&ran.stdout).into_iter().rev() {
            waiting.push([path.clone(), vec![name]].concat());
        }
    }
    insta::assert_snapshot!(pages);
}

fn subcommands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn completions_name_the_commands() {
    let nacre = Nacre::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = nacre.run(["completions", shell]);
        assert_eq!(ran.code, Some(0));
        assert!(ran.stdout.contains("snapshot"), "{shell}");
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let nacre = Nacre::new();
    let ran = nacre.run(["man", nacre.path("man").as_str(), "--json"]);
    assert_eq!(ran.json()["directory"], "[home]/man");
    for page in ["nacre.1", "nacre-sandbox-create.1", "nacre-snapshot.1"] {
        assert!(nacre.path("man").join(page).is_file(), "{page}");
    }
}

#[test]
fn the_version_is_printed() {
    let ran = Nacre::new().run(["--version"]);
    assert_eq!(
        ran.transcript(),
        format!("nacre {}\n[exit 0]", env!("CARGO_PKG_VERSION"))
    );
}

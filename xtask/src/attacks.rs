//! `docs/attacks.md` names a test for each attack. One that is renamed or removed must not stay there
//! as a promise that nothing keeps.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::report::End;

const PAGE: &str = "docs/attacks.md";
/// Rows that the page had when it was written; it only grows.
const FEWEST: usize = 22;

pub(crate) fn check() -> Result<End> {
    let broken = broken(Path::new("."))?;
    ensure!(broken.is_empty(), "{PAGE}:\n{}", broken.join("\n"));
    Ok(End::Passed)
}

fn broken(root: &Path) -> Result<Vec<String>> {
    let page = fs_err::read_to_string(root.join(PAGE))?;
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| **"))
        .collect();
    let mut broken = Vec::new();
    if rows.len() < FEWEST {
        broken.push(format!("{} rows, and there were {FEWEST}", rows.len()));
    }
    for row in rows {
        let tests = tests_of(row);
        if tests.is_empty() {
            broken.push(format!("no test: {row}"));
        }
        for test in tests {
            if let Some(why) = missing(root, test)? {
                broken.push(format!("`{test}`: {why}"));
            }
        }
    }
    Ok(broken)
}

/// What stands between backquotes in the last column.
fn tests_of(row: &str) -> Vec<&str> {
    let column = row.trim_end_matches([' ', '|']).rsplit(" | ").next();
    let pieces = column.unwrap_or_default().split('`');
    pieces.skip(1).step_by(2).collect()
}

/// Why there is no such test.
fn missing(root: &Path, test: &str) -> Result<Option<String>> {
    let Some((binary, path)) = test.split_once(' ') else {
        return Ok(Some("written as `nacre-crate::it module::name`".to_owned()));
    };
    let package = binary.trim_end_matches("::it");
    let mut segments: Vec<&str> = path.split("::").collect();
    let name = segments.pop().unwrap_or_default();
    // The clauses of the contract are functions that a macro makes tests of, for each provider.
    let is_contract = segments.first() == Some(&"contract");
    let directory = match package.strip_prefix("nacre-") {
        _ if is_contract => "crates/provider/src".to_owned(),
        Some(package) => format!("crates/{package}"),
        None => "crates/cli".to_owned(),
    };
    let directory = match (is_contract, binary.ends_with("::it")) {
        (true, _) => directory,
        (false, true) => format!("{directory}/tests"),
        (false, false) => format!("{directory}/src"),
    };
    let module = segments.iter().rev().find(|segment| **segment != "tests");
    let mut sources = Vec::new();
    walk(&root.join(&directory), &mut sources)?;
    let is_of_module = |file: &PathBuf| {
        module.is_none_or(|module| {
            file.components()
                .any(|part| Path::new(part.as_os_str()).file_stem() == Some(module.as_ref()))
        })
    };
    for file in sources.into_iter().filter(is_of_module) {
        let source = fs_err::read_to_string(&file)?;
        if has_test(&source, name, is_contract) {
            return Ok(None);
        }
    }
    Ok(Some(format!("no such test in {directory}")))
}

fn has_test(text: &str, name: &str, is_contract: bool) -> bool {
    let wanted = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().enumerate().any(|(place, line)| {
        let above = &lines[place.saturating_sub(6)..place];
        let above = above
            .iter()
            .rev()
            .take_while(|line| !line.trim().is_empty() && line.trim() != "}");
        line.contains(&wanted)
            && (is_contract || above.into_iter().any(|line| line.contains("test")))
    })
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_test_that_the_page_names_exists() {
        assert_eq!(broken(&root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_test_that_does_not_exist_is_noticed() {
        for absent in [
            "nacre-egress::it corpus::no_such_test",
            "nacre-egress::it no_such_module::every_entry_of_the_corpus_has_its_verdict",
            "nacre-wire::it corpus::every_entry_of_the_corpus_has_its_verdict",
            "nacre-provider-local::it contract::fork::no_such_clause",
            "no_such_test",
        ] {
            assert!(missing(&root(), absent).unwrap().is_some(), "{absent}");
        }
        let there = "nacre-egress::it corpus::every_entry_of_the_corpus_has_its_verdict";
        assert_eq!(missing(&root(), there).unwrap(), None);
    }

    #[test]
    fn what_is_no_test_is_not_taken_for_one() {
        assert!(has_test("#[test]\nfn a_b() {}", "a_b", false));
        assert!(has_test(
            "    #[tokio::test]\n    async fn a_b() {}",
            "a_b",
            false
        ));
        assert!(!has_test("fn a_b() {}", "a_b", false));
        assert!(!has_test(
            "#[test]\nfn other() {\n}\nfn a_b() {}",
            "a_b",
            false
        ));
    }
}

//! Findings of a review.
//!
//! A model is asked for JSON and gives something like it. What it says is counted here again, and
//! said once.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::prompt::ModelName;

#[derive(Debug, Clone)]
pub struct ReviewRequest {
    /// What to look at, as a patch.
    pub patch: String,
    /// What to look for, besides the usual.
    pub focus: Option<String>,
    pub model: Option<ModelName>,
}

/// A longer patch is cut, and the review says so.
const LONGEST_PATCH: usize = 400_000;
const MOST_FINDINGS: usize = 500;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Review {
    pub summary: String,
    pub files: Vec<FileFindings>,
    pub counts: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileFindings {
    pub path: String,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub title: String,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Critical,
    Warning,
    Suggestion,
    Nitpick,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub critical: usize,
    pub warning: usize,
    pub suggestion: usize,
    pub nitpick: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the review holds no findings in the form that was asked for; it began: {0}")]
pub struct Unreadable(String);

/// What the model is asked.
pub fn instructions(request: &ReviewRequest) -> String {
    let focus = request.focus.as_deref().unwrap_or("nothing in particular");
    let patch = crate::turn::cut_at(&request.patch, LONGEST_PATCH);
    let cut = if patch.len() < request.patch.len() {
        "\n[the patch goes on; say in the summary that you saw a part of it]"
    } else {
        ""
    };
    format!(
        "Review this patch. Change no files and run no commands. Look for mistakes that matter: \
         wrong results, lost data, security, races. Also asked for: {focus}.\n\
         Answer with one fenced JSON block and nothing else, in this form:\n\
         ```json\n\
         {{\"summary\": \"…\", \"findings\": [{{\"file\": \"path\", \"line\": 1, \
         \"severity\": \"critical|warning|suggestion|nitpick\", \"title\": \"…\", \"detail\": \"…\"}}]}}\n\
         ```\n\n{patch}{cut}"
    )
}

/// Reads an answer: the last fenced block that is JSON, else the widest braces.
pub fn read(answer: &str) -> Result<Review, Unreadable> {
    let value = fenced(answer)
        .chain(braced(answer))
        .find_map(|block| serde_json::from_str::<Value>(block).ok())
        .ok_or_else(|| Unreadable(answer.chars().take(200).collect()))?;
    let summary = words(&value["summary"]);
    let mut review = Review {
        summary,
        ..Review::default()
    };
    let findings = value["findings"].as_array().map_or(&[][..], Vec::as_slice);
    for finding in findings.iter().take(MOST_FINDINGS) {
        review.add(&words(&finding["file"]), finding_of(finding));
    }
    review.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(review)
}

impl Review {
    /// The same title and severity in one file is one finding.
    fn add(&mut self, path: &str, finding: Finding) {
        let place = self.files.iter().position(|file| file.path == path);
        let place = place.unwrap_or_else(|| {
            self.files.push(FileFindings {
                path: path.to_owned(),
                findings: Vec::new(),
            });
            self.files.len() - 1
        });
        let findings = &mut self.files[place].findings;
        let is_same = |known: &Finding| {
            known.severity == finding.severity && known.title.eq_ignore_ascii_case(&finding.title)
        };
        if findings.iter().any(is_same) {
            return;
        }
        match finding.severity {
            Severity::Critical => self.counts.critical += 1,
            Severity::Warning => self.counts.warning += 1,
            Severity::Suggestion => self.counts.suggestion += 1,
            Severity::Nitpick => self.counts.nitpick += 1,
        }
        findings.push(finding);
        findings.sort_by_key(|finding| finding.severity);
    }
}

fn finding_of(value: &Value) -> Finding {
    let severity = match words(&value["severity"]).to_lowercase().as_str() {
        "critical" | "high" | "error" => Severity::Critical,
        "warning" | "medium" => Severity::Warning,
        "nitpick" | "nit" | "low" => Severity::Nitpick,
        _ => Severity::Suggestion,
    };
    Finding {
        severity,
        title: words(&value["title"]),
        detail: words(&value["detail"]),
        line: value["line"].as_u64(),
    }
}

fn words(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default().trim();
    text.chars().take(8000).collect()
}

fn fenced(answer: &str) -> impl Iterator<Item = &str> {
    let blocks: Vec<&str> = answer
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| {
            block
                .trim_start_matches(|c: char| c.is_ascii_alphanumeric())
                .trim()
        })
        .collect();
    blocks.into_iter().rev()
}

fn braced(answer: &str) -> impl Iterator<Item = &str> {
    let from = answer.find('{');
    let to = answer.rfind('}');
    from.zip(to)
        .and_then(|(from, to)| answer.get(from..=to))
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_read_by_file_and_counted_again() {
        let answer = r#"Here:
```json
{"summary": "two things", "stats": {"critical": 99}, "findings": [
  {"file": "b.rs", "severity": "nitpick", "title": "name", "detail": "d"},
  {"file": "a.rs", "line": 3, "severity": "CRITICAL", "title": "overflow", "detail": "d"}]}
```"#;
        let review = read(answer).unwrap();
        let paths: Vec<&str> = review.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a.rs", "b.rs"]);
        assert_eq!((review.counts.critical, review.counts.nitpick), (1, 1));
        assert_eq!(review.files[0].findings[0].line, Some(3));
    }

    #[test]
    fn a_finding_that_is_said_twice_counts_once() {
        let answer = r#"{"findings": [
            {"file": "a", "severity": "warning", "title": "Race"},
            {"file": "a", "severity": "warning", "title": "race"},
            {"file": "b", "severity": "warning", "title": "race"}]}"#;
        assert_eq!(read(answer).unwrap().counts.warning, 2);
    }

    #[test]
    fn an_answer_without_findings_says_how_it_began() {
        let error = read("I would rather not.").unwrap_err();
        assert!(error.to_string().ends_with("I would rather not."));
    }
}

//! What the agent is given to read: the repositories it works on, personas, instructions, and skills,
//! which it reads when it needs them. All of it lies outside the workspace and is written anew each
//! time, so that what is gone is gone.

use serde_json::json;
use wire::link::{Boot, Skill};

use super::Site;
use super::workspace::{below_home, directories};

const MOST: usize = 100;
const LONGEST: usize = 1 << 20;

/// What is there to be read, and what is not, because it makes no sense. One that makes none costs
/// no other.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// In the order in which they are to be read.
    pub(super) paths: Vec<String>,
    /// Where skills are.
    pub(super) skills: Vec<String>,
    pub(super) wrong: Vec<String>,
}

pub(super) async fn write(site: &Site, boot: &Boot) -> Written {
    let mut written = Written::default();
    if let Err(why) = write_ours(site, boot, &mut written).await {
        written.wrong.push(why);
    }
    // The repositories' own, which the agent does not look for by itself.
    let own = directories(site, boot).into_iter();
    written
        .paths
        .extend(own.map(|path| format!("{path}/AGENTS.md")));
    written
}

async fn write_ours(site: &Site, boot: &Boot, written: &mut Written) -> Result<(), String> {
    let place = site.place.state.join("agent/instructions");
    let below = below_home(site, &place)?;
    // There is none the first time.
    let _ = site.files.remove(&below).await;
    let (files, wrong) = files(boot);
    written.wrong.extend(wrong);
    for (name, text) in files {
        let path = format!("{below}/{name}");
        let done = site.files.write(&path, text.as_bytes(), None).await;
        done.map_err(|error| error.to_string())?;
        written.paths.push(place.join(name).into_string());
    }
    write_skills(site, boot, written).await
}

/// Ours first: one of the same name takes its place.
async fn write_skills(site: &Site, boot: &Boot, written: &mut Written) -> Result<(), String> {
    let place = site.place.state.join("agent/skills");
    let below = below_home(site, &place)?;
    let _ = site.files.remove(&below).await;
    let theirs = &boot.content.skills;
    for (name, text) in OURS {
        if theirs
            .iter()
            .any(|skill| skill.name == name && check(skill).is_ok())
        {
            continue;
        }
        let path = format!("{below}/{name}/{INDEX}");
        let done = site.files.write(&path, text.as_bytes(), None).await;
        done.map_err(|error| error.to_string())?;
    }
    for skill in theirs {
        if let Err(why) = check(skill) {
            written.wrong.push(why);
            continue;
        }
        for file in &skill.files {
            let path = format!("{below}/{}/{}", skill.name, file.path);
            let text = if file.path == INDEX {
                introduced(&skill.name, &file.content)
            } else {
                file.content.clone()
            };
            let done = site.files.write(&path, text.as_bytes(), None).await;
            done.map_err(|error| error.to_string())?;
        }
    }
    written.skills.push(place.into_string());
    Ok(())
}

/// What a skill begins with, and what every sandbox has.
const INDEX: &str = "SKILL.md";
const OURS: [(&str, &str); 2] = [
    ("browser", include_str!("skills/browser.md")),
    ("tunnels", include_str!("skills/tunnels.md")),
];

/// The agent lists skills by a name and a line about each; one that brings neither gets both.
fn introduced(name: &str, text: &str) -> String {
    if text.starts_with("---") {
        return text.to_owned();
    }
    let mut lines = text.lines().map(|line| line.trim_start_matches('#').trim());
    let about = lines.find(|line| !line.is_empty());
    let about: String = about.unwrap_or(name).chars().take(200).collect();
    let (name, about) = (json!(name), json!(about));
    format!("---\nname: {name}\ndescription: {about}\n---\n\n{text}")
}

fn check(skill: &Skill) -> Result<(), String> {
    if !is_plain(&skill.name) {
        return Err(format!("{:?} is no name of a skill", skill.name));
    }
    for file in &skill.files {
        let is_below = file.path.split('/').all(is_plain);
        if !is_below || file.content.len() > LONGEST {
            return Err(format!(
                "{:?} is no file of the skill {}",
                file.path, skill.name
            ));
        }
    }
    Ok(())
}

/// Names that sort as they are to be read, and what is in them; and which ones are not.
fn files(boot: &Boot) -> (Vec<(String, String)>, Vec<String>) {
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    if !boot.repos.is_empty() {
        files.push(("00-repositories.md".to_owned(), repositories(boot)));
    }
    let mut personas: Vec<_> = boot.content.personas.iter().collect();
    personas.sort_by(|a, b| (a.order, &a.name).cmp(&(b.order, &b.name)));
    let texts = personas
        .iter()
        .map(|persona| (&persona.name, &persona.content));
    let instructions = boot.content.instructions.iter();
    let texts = texts.chain(instructions.map(|one| (&one.name, &one.content)));
    for (number, (name, content)) in texts.enumerate() {
        if number >= MOST {
            wrong.push(format!(
                "there are more than {MOST} personas and instructions"
            ));
            break;
        }
        if !is_plain(name) || content.len() > LONGEST {
            wrong.push(format!(
                "the persona or instruction {name:?} has no plain name, or more than {LONGEST} bytes"
            ));
            continue;
        }
        files.push((format!("{:02}-{name}.md", number + 1), content.clone()));
    }
    (files, wrong)
}

fn repositories(boot: &Boot) -> String {
    let mut text = String::from("# Repositories in this workspace\n\n");
    for repo in &boot.repos {
        text.push_str("- ");
        text.push_str(&repo.url);
        for (what, value) in [("branch", &repo.branch), ("at", &repo.reference)] {
            if let Some(value) = value {
                text.extend([", ", what, " ", value]);
            }
        }
        text.push('\n');
    }
    text
}

/// One name of a file, that leads nowhere.
fn is_plain(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_. ".contains(&byte))
}

#[cfg(test)]
mod tests {
    use wire::link::{Content, Persona, Repo};

    use super::*;

    fn persona(name: &str, order: i64) -> Persona {
        Persona {
            name: name.to_owned(),
            content: format!("I am {name}."),
            order,
        }
    }

    fn with(personas: Vec<Persona>) -> Boot {
        Boot {
            repos: vec![Repo {
                url: "https://example.com/pearl".to_owned(),
                branch: Some("main".to_owned()),
                ..Repo::default()
            }],
            content: Content {
                personas,
                ..Content::default()
            },
            ..Boot::default()
        }
    }

    #[test]
    fn names_sort_as_they_are_to_be_read() {
        let (files, wrong) = files(&with(vec![persona("late", 9), persona("early", 1)]));
        assert!(wrong.is_empty());
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["00-repositories.md", "01-early.md", "02-late.md"]);
        assert!(files[0].1.contains("pearl, branch main"));
    }

    #[test]
    fn a_skill_that_does_not_say_what_it_is_for_is_introduced() {
        let own = "---\nname: x\n---\ntext";
        assert_eq!(introduced("deploy", own), own);
        assert_eq!(
            introduced("deploy", "\n# How to \"deploy\"\n\nPush."),
            "---\nname: \"deploy\"\ndescription: \"How to \\\"deploy\\\"\"\n---\n\n\n# How to \"deploy\"\n\nPush."
        );
    }

    #[test]
    fn a_name_leads_nowhere() {
        for name in ["", "..", "../x", "a/b", ".hidden", "a\nb"] {
            let (files, wrong) = files(&with(vec![persona(name, 1), persona("good", 2)]));
            assert_eq!(wrong.len(), 1, "{name:?}");
            assert!(wrong[0].contains(&format!("{name:?}")), "{wrong:?}");
            assert_eq!(files.last().unwrap().0, "02-good.md", "the other is there");
        }
    }
}

//! What the agent is given to read: the repositories it works on, personas, instructions. All of it
//! lies outside the workspace and is written anew each time, so that what is gone is gone.

use wire::link::Boot;

use super::Site;
use super::workspace::{below_home, directory};

const MOST: usize = 100;
const LONGEST: usize = 1 << 20;

/// The files, in the order in which they are to be read.
pub(super) async fn write(site: &Site, boot: &Boot) -> Result<Vec<String>, String> {
    let place = site.place.state.join("agent/instructions");
    let below = below_home(site, &place)?;
    // There is none the first time.
    let _ = site.files.remove(&below).await;
    let mut paths = Vec::new();
    for (name, text) in files(boot)? {
        let path = format!("{below}/{name}");
        let written = site.files.write(&path, text.as_bytes(), None).await;
        written.map_err(|error| error.to_string())?;
        paths.push(place.join(name).into_string());
    }
    for skill in &boot.content.skills {
        if !is_plain(&skill.name) {
            return Err(format!("{:?} is no name of a skill", skill.name));
        }
        for file in &skill.files {
            let is_below = file.path.split('/').all(is_plain);
            if !is_below || file.content.len() > LONGEST {
                return Err(format!("{:?} is no file of a skill", file.path));
            }
            let path = format!("{below}/skills/{}/{}", skill.name, file.path);
            let written = site.files.write(&path, file.content.as_bytes(), None).await;
            written.map_err(|error| error.to_string())?;
        }
        paths.push(
            place
                .join(format!("skills/{}/SKILL.md", skill.name))
                .into_string(),
        );
    }
    // The repository's own, which the agent does not look for by itself.
    paths.push(format!("{}/AGENTS.md", directory(site, boot)));
    Ok(paths)
}

/// Names that sort as they are to be read, and what is in them.
fn files(boot: &Boot) -> Result<Vec<(String, String)>, String> {
    let mut files = Vec::new();
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
            return Err(format!(
                "there are more than {MOST} personas and instructions"
            ));
        }
        if !is_plain(name) || content.len() > LONGEST {
            return Err(format!(
                "the persona or instruction {name:?} has no plain name, or more than {LONGEST} bytes"
            ));
        }
        files.push((format!("{:02}-{name}.md", number + 1), content.clone()));
    }
    Ok(files)
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
        let files = files(&with(vec![persona("late", 9), persona("early", 1)])).unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["00-repositories.md", "01-early.md", "02-late.md"]);
        assert!(files[0].1.contains("pearl, branch main"));
    }

    #[test]
    fn a_name_leads_nowhere() {
        for name in ["", "..", "../x", "a/b", ".hidden", "a\nb"] {
            assert!(files(&with(vec![persona(name, 1)])).is_err(), "{name:?}");
        }
    }
}

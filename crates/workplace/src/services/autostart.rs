//! Which services start by themselves with a session.

use camino::Utf8PathBuf;
use serde::Deserialize;

use super::{BadName, Definition, Name, Restart};

/// As a prebuild or a repository lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServiceCommand {
    pub name: String,
    pub command: String,
    /// Below `workspace_path`.
    #[serde(default)]
    pub cwd: Option<Utf8PathBuf>,
    /// Below the workspace.
    #[serde(default, alias = "workspacePath")]
    pub workspace_path: Option<Utf8PathBuf>,
}

/// A repository and what it lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoCommands {
    /// Where it lies, below the workspace.
    pub workspace_path: Utf8PathBuf,
    pub commands: Vec<ServiceCommand>,
}

/// Whether what the services need is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependencies {
    Installed,
    Missing,
}

/// The prebuild's if it has any, else every repository's, each in that repository's folder. A name
/// that cannot be one is an error that the user is shown.
pub fn autostart(
    dependencies: Dependencies,
    prebuild: &[ServiceCommand],
    repos: &[RepoCommands],
) -> Result<Vec<Definition>, BadName> {
    if dependencies == Dependencies::Missing {
        return Ok(Vec::new());
    }
    if !prebuild.is_empty() {
        return prebuild
            .iter()
            .map(|wanted| definition(wanted, None))
            .collect();
    }
    repos
        .iter()
        .flat_map(|repo| {
            let folder = Some(&repo.workspace_path);
            repo.commands
                .iter()
                .map(move |wanted| definition(wanted, folder))
        })
        .collect()
}

fn definition(
    wanted: &ServiceCommand,
    folder: Option<&Utf8PathBuf>,
) -> Result<Definition, BadName> {
    let folder = wanted.workspace_path.as_ref().or(folder);
    let cwd = match (folder, &wanted.cwd) {
        (Some(folder), Some(cwd)) => Some(folder.join(cwd)),
        (Some(only), None) | (None, Some(only)) => Some(only.clone()),
        (None, None) => None,
    };
    Ok(Definition {
        name: Name::new(&wanted.name)?,
        command: wanted.command.clone(),
        cwd,
        restart: Restart::OnFailure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, cwd: Option<&str>) -> ServiceCommand {
        ServiceCommand {
            name: name.to_owned(),
            command: "run".to_owned(),
            cwd: cwd.map(Into::into),
            workspace_path: None,
        }
    }

    fn repo(path: &str, commands: &[ServiceCommand]) -> RepoCommands {
        RepoCommands {
            workspace_path: path.into(),
            commands: commands.to_vec(),
        }
    }

    fn started(
        dependencies: Dependencies,
        prebuild: &[ServiceCommand],
        repos: &[RepoCommands],
    ) -> Vec<String> {
        let definitions = autostart(dependencies, prebuild, repos).unwrap();
        let shown = definitions.into_iter().map(|definition| {
            format!(
                "{} in {:?}",
                definition.name,
                definition.cwd.unwrap_or_default()
            )
        });
        shown.collect()
    }

    #[test]
    fn the_prebuilds_win_and_nothing_starts_without_its_dependencies() {
        let prebuild = [command("web", None)];
        let repos = [
            repo("api", &[command("server", Some("src"))]),
            repo("ui", &[command("dev", None)]),
        ];
        let installed = Dependencies::Installed;
        assert_eq!(started(installed, &prebuild, &repos), ["web in \"\""]);
        let each = ["server in \"api/src\"", "dev in \"ui\""];
        assert_eq!(started(installed, &[], &repos), each);
        assert!(started(installed, &[], &[]).is_empty());
        assert!(started(Dependencies::Missing, &prebuild, &repos).is_empty());
        assert!(autostart(installed, &[command("../x", None)], &[]).is_err());
    }
}

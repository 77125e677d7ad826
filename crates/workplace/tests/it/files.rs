use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::rc::Rc;

use fs_err as fs;
use workplace::env_files::{EnvError, EnvFiles, Spec};
use workplace::files::{FileError, Files, Limits, MAX_WRITTEN};

use crate::world::{UID, World, in_world};

fn files(world: &World) -> Files {
    Files::new(Rc::clone(&world.hands), &world.place)
}

#[test]
fn files_are_listed_read_written_renamed_and_removed_as_the_user() {
    in_world(|world: Rc<World>| async move {
        let files = files(&world);
        files
            .write("a/b/c.txt", b"hello pearl", None)
            .await
            .unwrap();
        let path = world.place.workspace.join("a/b/c.txt");
        assert_eq!(fs::metadata(&path).unwrap().uid(), UID);
        let part = files.read("a/b/c.txt", 6, 3).await.unwrap();
        assert_eq!((part.bytes.as_slice(), part.size), (&b"pea"[..], 11));
        assert!(
            files
                .read("a/b/c.txt", 100, 3)
                .await
                .unwrap()
                .bytes
                .is_empty()
        );
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        files.write("./a/b/c.txt", b"again", None).await.unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().mode() & 0o777,
            0o755,
            "its mode is kept"
        );
        files.make_directory("a/empty").await.unwrap();
        let names: Vec<_> = files
            .list("a")
            .await
            .unwrap()
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert_eq!(names, ["b", "empty"]);
        files.rename("a/b/c.txt", "x/y.txt").await.unwrap();
        assert_eq!(files.read("x/y.txt", 0, 100).await.unwrap().bytes, b"again");
        files.remove("a").await.unwrap();
        let names: Vec<_> = files
            .list(".")
            .await
            .unwrap()
            .into_iter()
            .map(|s| s.name)
            .collect();
        assert_eq!(names, ["x"]);
        for gone in ["a", "a/b"] {
            assert!(
                matches!(files.list(gone).await, Err(FileError::NotFound(_))),
                "{gone}"
            );
        }
        assert!(matches!(
            files.remove("a").await,
            Err(FileError::NotFound(_))
        ));
        assert!(
            files
                .write("big", &vec![0; MAX_WRITTEN + 1], None)
                .await
                .is_err()
        );
    });
}

#[test]
fn no_path_and_no_link_leads_out_of_the_workspace() {
    in_world(|world: Rc<World>| async move {
        let files = files(&world);
        let secret = world.outside().join("secret");
        fs::write(&secret, "canary").unwrap();
        world
            .must(&format!(
                "mkdir in; echo inside >in/file; ln -s {secret} link; ln -s .. up; ln -s / root; \
                 ln -s in/file near; mkfifo pipe; ln -s {} dir",
                world.outside()
            ))
            .await;
        for bad in [
            "..",
            "../secret",
            "../../secret",
            "/etc/passwd",
            secret.as_str(),
            "in/../../secret",
            "link",
            "up/secret",
            "root/etc/passwd",
            "near",
            "dir/secret",
            "in//file",
            "a\0b",
        ] {
            assert!(files.read(bad, 0, 100).await.is_err(), "read {bad:?}");
            assert!(files.write(bad, b"x", None).await.is_err(), "write {bad:?}");
            assert!(files.list(bad).await.is_err(), "list {bad:?}");
            assert!(
                files.rename("in/file", bad).await.is_err() || bad == "link" || bad == "near",
                "rename {bad:?}"
            );
            world.must("[ -e in/file ] || echo inside >in/file").await;
        }
        for bad in [
            "..",
            "../secret",
            "/etc/passwd",
            "up/secret",
            "dir/secret",
            "",
            ".",
        ] {
            assert!(files.remove(bad).await.is_err(), "remove {bad:?}");
        }
        assert!(
            files.read("pipe", 0, 10).await.is_err(),
            "and does not wait"
        );
        world.must("ln -sf /etc again").await;
        files.remove("again").await.unwrap();
        files.remove("dir").await.unwrap();
        assert_eq!(fs::read_to_string(&secret).unwrap(), "canary");
        assert!(fs::metadata("/etc/passwd").is_ok());
    });
}

#[test]
fn what_the_user_may_not_read_is_not_read() {
    in_world(|world: Rc<World>| async move {
        let files = files(&world);
        fs::write(world.place.workspace.join("roots"), "canary").unwrap();
        let closed = PermissionsExt::from_mode(0o600);
        fs::set_permissions(world.place.workspace.join("roots"), closed).unwrap();
        assert!(matches!(
            files.read("roots", 0, 10).await,
            Err(FileError::Refused(_))
        ));
    });
}

#[test]
fn evidence_is_collected_within_its_limits_and_without_links() {
    in_world(|world: Rc<World>| async move {
        let files = files(&world);
        let limits = Limits {
            files: 3,
            size: 10,
            total: 15,
        };
        assert!(
            files
                .evidence(None, limits)
                .await
                .unwrap()
                .next()
                .await
                .unwrap()
                .is_none()
        );
        world
            .must(
                "mkdir -p .nacre/.verification/sub; cd .nacre/.verification; printf 12345 >a.png; \
                 printf 12345678901 >b.txt; printf 123456789 >sub/c; printf 1 >d; printf 12 >e; \
                 ln -s /etc/passwd f",
            )
            .await;
        let mut evidence = files.evidence(None, limits).await.unwrap();
        let mut seen = Vec::new();
        while let Some((file, content)) = evidence.next().await.unwrap() {
            assert_eq!(file.size, content.len() as u64);
            seen.push(format!("{} {}", file.path, file.content_type));
        }
        let text = "text/plain; charset=utf-8";
        assert_eq!(
            seen,
            [
                "a.png image/png".to_owned(),
                format!("d {text}"),
                format!("e {text}")
            ]
        );
        assert_eq!(evidence.left_out(), 2);
        world.must("ln -s / out").await;
        assert!(
            files
                .evidence(Some("out"), limits)
                .await
                .unwrap()
                .next()
                .await
                .is_err()
        );
        assert!(
            files
                .evidence(Some("../.."), limits)
                .await
                .unwrap()
                .next()
                .await
                .is_err()
        );
    });
}

fn env_files(world: &World) -> EnvFiles {
    EnvFiles::new(files(world), world.place.clone())
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

const SPEC: &str = r#"[
    {"workspace_path": "app", "path": "web/.env.local", "mode": "secret",
     "keys": [{"key": "TOKEN"}, {"key": "EXTRA", "required": false}]},
    {"workspace_path": "app", "path": "public.env", "mode": "public", "keys": [{"key": "NAME"}]}]"#;

#[test]
fn env_files_are_links_to_memory_and_git_does_not_see_them() {
    in_world(|world: Rc<World>| async move {
        let env = env_files(&world);
        world.must("git init -q app").await;
        let spec = Spec::parse(SPEC.as_bytes()).unwrap();
        let key = "line one\nit's \"two\" $HOME\n";
        env.give(values(&[("TOKEN", key)])).unwrap();
        let applied = env
            .apply(&spec, &values(&[("NAME", "a b"), ("TOKEN", "loses")]))
            .await
            .unwrap();
        assert_eq!(applied.len(), 2);
        let target = world.must("readlink app/web/.env.local").await;
        assert!(target.starts_with(world.place.secrets.as_str()));
        let read = world
            .must(". app/web/.env.local; printf '%s.' \"$TOKEN\"")
            .await;
        assert_eq!(read, format!("{key}."));
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&target).unwrap().uid(), UID);
        assert_eq!(
            world
                .must("cd app; git status --short --untracked-files=all")
                .await,
            ""
        );
        let state = fs::read_to_string(world.place.state.join("env_files.json")).unwrap();
        assert!(state.contains("TOKEN") && !state.contains("line one"));
        // Twice is as good as once.
        env.apply(&spec, &values(&[("NAME", "c")])).await.unwrap();
        let excluded = world.must("cat app/.git/info/exclude").await;
        assert_eq!(excluded.matches("/web/.env.local").count(), 1);

        assert_eq!(env.scrub(None).await.unwrap(), ["app/web/.env.local"]);
        world
            .must("[ ! -e app/web/.env.local ] && [ ! -L app/web/.env.local ]")
            .await;
        assert_eq!(world.must("cat app/public.env").await, "NAME=c");
        assert!(!fs::exists(&target).unwrap());
    });
}

#[test]
fn one_missing_value_or_bad_place_and_nothing_is_written() {
    in_world(|world: Rc<World>| async move {
        let env = env_files(&world);
        let spec = Spec::parse(SPEC.as_bytes()).unwrap();
        let error = env
            .apply(&spec, &values(&[("TOKEN", "canary")]))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, EnvError::Missing(keys) if keys == &["NAME"]),
            "{error}"
        );
        assert!(!error.to_string().contains("canary"));
        let all = values(&[("TOKEN", "t"), ("NAME", "n")]);
        world.must("mkdir -p app/public.env").await;
        assert!(matches!(
            env.apply(&spec, &all).await,
            Err(EnvError::InTheWay(_))
        ));
        world.must("rmdir app/public.env; [ ! -e app/web ]").await;
        world.must("ln -s /etc/passwd app/public.env").await;
        assert!(matches!(
            env.apply(&spec, &all).await,
            Err(EnvError::InTheWay(_))
        ));
        world.must("rm app/public.env; ln -s / app/web").await;
        assert!(env.apply(&spec, &all).await.is_err());
        assert_eq!(world.must("ls -A app").await, "web");
    });
}

#[test]
fn values_that_come_late_are_written_when_they_come() {
    in_world(|world: Rc<World>| async move {
        let env = env_files(&world);
        let spec = Spec::parse(SPEC.as_bytes()).unwrap();
        assert!(matches!(
            env.apply_or_wait(&spec).await,
            Err(EnvError::Missing(_))
        ));
        env.give(values(&[("TOKEN", "pearl")])).unwrap();
        assert_eq!(env.catch_up().await.unwrap().len(), 1);
        assert_eq!(world.must("cat app/web/.env.local").await, "TOKEN=pearl");
        world.must("[ ! -e app/public.env ]").await;
        env.give(values(&[("NAME", "n"), ("EXTRA", "e")])).unwrap();
        env.catch_up().await.unwrap();
        assert_eq!(world.must("cat app/public.env").await, "NAME=n");
        let both = world.must("cat app/web/.env.local").await;
        assert_eq!(both, "TOKEN=pearl\nEXTRA=e");
    });
}

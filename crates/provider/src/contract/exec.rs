//! Running commands.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::output::{first_refusal, next_line};
use super::wait::{eventually, soon};
use super::world::{World, refused};
use crate::probe::pattern;
use crate::{Exec, ExecInput, ExecSpec, Exit, Finished, SandboxSpec, WindowSize};

/// Much more than any pipe, socket or queue on the way holds.
const MUCH: u64 = 32 << 20;
const BEATS: &str = "/contract/beats";

pub async fn stdout_comes_back_and_nothing_else(world: &World<'_>) {
    let done = world.sandbox().await.run(["out", "1000"]).await;
    let exit = Exit {
        code: 0,
        signal: None,
        timed_out: false,
    };
    assert_eq!(
        done,
        Finished {
            exit,
            stdout: pattern(0, 1000),
            stderr: vec![]
        }
    );
}

pub async fn stderr_is_apart_from_stdout(world: &World<'_>) {
    let done = world.sandbox().await.run(["err", "oyster"]).await;
    assert_eq!(
        (done.stdout.as_slice(), done.stderr.as_slice()),
        (&b""[..], &b"oyster"[..])
    );
}

pub async fn the_exit_code_comes_back(world: &World<'_>) {
    let guest = world.sandbox().await;
    for code in [0, 1, 42, 255] {
        let done = guest.run(["exit", &code.to_string()]).await;
        assert_eq!(
            done.exit,
            Exit {
                code,
                signal: None,
                timed_out: false
            }
        );
    }
}

pub async fn death_by_signal_is_128_and_its_number(world: &World<'_>) {
    let guest = world.sandbox().await;
    for signal in [9, 15] {
        let done = guest.run(["die", &signal.to_string()]).await;
        assert_eq!(
            done.exit,
            Exit {
                code: 128 + signal,
                signal: Some(signal),
                timed_out: false
            }
        );
    }
}

pub async fn a_signal_reaches_the_command(world: &World<'_>) {
    let guest = world.sandbox().await;
    let mut exec = guest.exec(guest.command(["listen", "8017"])).await;
    assert_eq!(next_line(&mut exec).await, "listening\n");
    exec.input
        .send(ExecInput::Signal(15))
        .await
        .expect("it listens");
    let done = soon("the end by signal", exec.finish())
        .await
        .expect("an exit");
    assert_eq!(
        done.exit,
        Exit {
            code: 143,
            signal: Some(15),
            timed_out: false
        }
    );
}

pub async fn stdin_reaches_the_command_and_its_end_too(world: &World<'_>) {
    let guest = world.sandbox().await;
    let mut exec = guest.exec(guest.command(["cat"])).await;
    exec.input
        .send(ExecInput::Data(Bytes::from_static(b"ping\n")))
        .await
        .expect("it reads");
    assert_eq!(
        next_line(&mut exec).await,
        "ping\n",
        "before the input ends"
    );
    exec.input.send(ExecInput::Eof).await.expect("it reads");
    let done = soon("cat", exec.finish()).await.expect("an exit");
    assert_eq!((done.exit.code, done.stdout.as_slice()), (0, &b""[..]));
}

pub async fn binary_bytes_pass_both_ways(world: &World<'_>) {
    let guest = world.sandbox().await;
    let all: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let exec = guest.exec(guest.command(["cat"])).await;
    let Exec { input, output, pid } = exec;
    let send = async {
        for piece in all.chunks(48 << 10) {
            let piece = Bytes::copy_from_slice(piece);
            input.send(ExecInput::Data(piece)).await.expect("it reads");
        }
        input.send(ExecInput::Eof).await.expect("it reads");
    };
    let receive = Exec {
        pid,
        input: input.clone(),
        output,
    }
    .finish_reading();
    let ((), done) = soon("a megabyte there and back", async {
        tokio::join!(send, receive)
    })
    .await;
    assert_eq!(done.exit.code, 0);
    assert!(done.stdout == all, "the bytes differ");
}

pub async fn the_environment_is_the_sandboxs_and_the_commands_over_it(world: &World<'_>) {
    let env = BTreeMap::from([
        ("SHELL_OF".into(), "oyster".into()),
        ("GRAIN".into(), "sand".into()),
    ]);
    let guest = world
        .create(&SandboxSpec {
            env,
            ..world.spec()
        })
        .await;
    let over = BTreeMap::from([
        (b"GRAIN".to_vec(), b"pearl".to_vec()),
        (b"ODD".to_vec(), b"a=b\n\xff".to_vec()),
    ]);
    let done = guest
        .finish(ExecSpec {
            env: over,
            ..guest.command(["env"])
        })
        .await;
    let found: Vec<&[u8]> = done.stdout.split(|byte| *byte == 0).collect();
    for wanted in [&b"SHELL_OF=oyster"[..], b"GRAIN=pearl", b"ODD=a=b\n\xff"] {
        assert!(
            found.contains(&wanted),
            "{} is missing",
            String::from_utf8_lossy(wanted)
        );
    }
    assert!(!found.contains(&&b"GRAIN=sand"[..]));
}

pub async fn a_command_runs_where_it_is_told(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.ok(["mkdir", "/contract/deep down"]).await;
    let cwd = Some(b"/contract/deep down".to_vec());
    let done = guest
        .finish(ExecSpec {
            cwd,
            ..guest.command(["pwd"])
        })
        .await;
    assert_eq!(String::from_utf8_lossy(&done.stdout), "/contract/deep down");
}

pub async fn a_missing_directory_is_refused(world: &World<'_>) {
    let guest = world.sandbox().await;
    let spec = ExecSpec {
        cwd: Some(b"/contract/nowhere".to_vec()),
        ..guest.command(["pwd"])
    };
    refused(
        "a missing directory",
        first_refusal(guest.try_exec(spec).await).await,
    );
}

pub async fn a_command_runs_as_the_user_it_is_told(world: &World<'_>) {
    let guest = world.sandbox().await;
    let users = [
        (None, "0 0"),
        (Some("root"), "0 0"),
        (Some("1000:1000"), "1000 1000"),
        (Some("7:9"), "7 9"),
    ];
    for (user, wanted) in users {
        // Where a user's home may be missing, the directory is given.
        let cwd = Some(b"/".to_vec());
        let user = user.map(str::to_owned);
        let done = guest
            .finish(ExecSpec {
                user: user.clone(),
                cwd,
                ..guest.command(["id"])
            })
            .await;
        assert_eq!(
            String::from_utf8_lossy(&done.stdout).trim(),
            wanted,
            "{user:?}"
        );
    }
}

pub async fn an_unknown_user_is_refused(world: &World<'_>) {
    let guest = world.sandbox().await;
    for user in ["nobody-we-know", "", "1:2:3", "-1", "root:root:root"] {
        let spec = ExecSpec {
            user: Some(user.into()),
            ..guest.command(["id"])
        };
        refused(user, first_refusal(guest.try_exec(spec).await).await);
    }
}

/// `NotFound` would say that the sandbox is gone.
pub async fn an_unknown_program_is_refused(world: &World<'_>) {
    let guest = world.sandbox().await;
    for program in ["/no/such/program", "no-such-program", "/contract", ""] {
        refused(
            program,
            first_refusal(guest.try_exec(ExecSpec::new([program])).await).await,
        );
    }
    refused(
        "no program at all",
        first_refusal(guest.try_exec(ExecSpec::default()).await).await,
    );
    guest.ok(["pwd"]).await;
}

pub async fn arguments_with_odd_bytes_arrive_as_they_are(world: &World<'_>) {
    let guest = world.sandbox().await;
    let every: Vec<u8> = (1..=255).collect();
    let odd: [&[u8]; 9] = [
        b"",
        b" ",
        b"'",
        b"\"",
        b"$(touch /contract/x)",
        b"a\nb",
        b"--",
        b"\xff\xfe",
        &every,
    ];
    let mut wanted = Vec::new();
    for arg in odd {
        wanted.extend_from_slice(arg);
        wanted.push(0);
    }
    let args = std::iter::once(&b"args"[..]).chain(odd);
    assert_eq!(guest.ok(args).await, wanted);
    assert_eq!(
        guest.content("/contract/x").await,
        None,
        "no shell looked at them"
    );
}

pub async fn a_terminal_has_the_size_it_is_given(world: &World<'_>) {
    let guest = world.sandbox().await;
    assert_eq!(guest.text(["tty"]).await, "no tty\n");
    let pty = Some(WindowSize {
        rows: 33,
        columns: 111,
    });
    let done = guest
        .finish(ExecSpec {
            pty,
            ..guest.command(["tty"])
        })
        .await;
    // A terminal ends its lines its own way.
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "tty 33 111");
}

pub async fn a_terminal_can_be_resized(world: &World<'_>) {
    let guest = world.sandbox().await;
    let pty = Some(WindowSize {
        rows: 24,
        columns: 80,
    });
    let mut exec = guest
        .exec(ExecSpec {
            pty,
            ..guest.command(["tty-watch"])
        })
        .await;
    assert_eq!(next_line(&mut exec).await.trim(), "24 80");
    let larger = WindowSize {
        rows: 50,
        columns: 132,
    };
    exec.input
        .send(ExecInput::Resize(larger))
        .await
        .expect("it listens");
    assert_eq!(next_line(&mut exec).await.trim(), "50 132");
}

pub async fn a_detached_command_outlives_its_handle(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.start(["beat", BEATS]).await;
    eventually("it beats", async || guest.beating(BEATS).await == 1).await;
    let before = guest.content(BEATS).await.map_or(0, |text| text.len());
    eventually("it beats on", async || {
        guest.content(BEATS).await.map_or(0, |text| text.len()) > before
    })
    .await;
}

pub async fn a_timeout_kills_everything_the_command_started(world: &World<'_>) {
    let guest = world.sandbox().await;
    // A busy machine may not get the whole tree up in the first one's time.
    for seconds in [2, 20] {
        let timeout = Some(Duration::from_secs(seconds));
        let done = guest
            .finish(ExecSpec {
                timeout,
                ..guest.command(["tree", BEATS])
            })
            .await;
        assert!(done.exit.timed_out, "{:?}", done.exit);
        assert_ne!(done.exit.code, 0);
        guest.stands_still(BEATS).await;
        if guest.beating(BEATS).await >= 3 {
            return;
        }
        guest.run(["rm", BEATS]).await;
    }
    panic!("the tree never came up");
}

pub async fn a_command_within_its_timeout_is_left_alone(world: &World<'_>) {
    let guest = world.sandbox().await;
    let timeout = Some(Duration::from_secs(20));
    let done = guest
        .finish(ExecSpec {
            timeout,
            ..guest.command(["exit", "3"])
        })
        .await;
    assert_eq!(
        done.exit,
        Exit {
            code: 3,
            signal: None,
            timed_out: false
        }
    );
}

pub async fn dropping_the_handle_kills_everything_the_command_started(world: &World<'_>) {
    let guest = world.sandbox().await;
    let exec = guest.exec(guest.command(["tree", BEATS])).await;
    eventually("the tree beats", async || guest.beating(BEATS).await >= 3).await;
    drop(exec);
    guest.stands_still(BEATS).await;
}

pub async fn much_output_arrives_whole(world: &World<'_>) {
    let guest = world.sandbox().await;
    let exec = guest.exec(guest.command(["out", &MUCH.to_string()])).await;
    let done = soon("much output", exec.finish_reading()).await;
    assert_eq!(done.exit.code, 0);
    assert_eq!(done.stdout.len() as u64, MUCH);
    assert!(
        done.stdout == pattern(0, done.stdout.len()),
        "the bytes differ"
    );
}

pub async fn a_slow_reader_slows_the_command_and_nobody_else(world: &World<'_>) {
    let guest = world.sandbox().await;
    let spec = guest.command(["out", &MUCH.to_string(), "/contract/written"]);
    let exec = guest.exec(spec).await;
    eventually("output waits", async || !exec.output.is_empty()).await;
    guest.ok(["sleep", "500"]).await;
    assert_eq!(
        guest.content("/contract/written").await,
        None,
        "the command waits for its reader"
    );
    let done = soon("the rest", exec.finish_reading()).await;
    assert_eq!((done.exit.code, done.stdout.len() as u64), (0, MUCH));
    assert!(guest.content("/contract/written").await.is_some());
}

pub async fn fifty_commands_run_at_once(world: &World<'_>) {
    let guest = world.sandbox().await;
    let mut started = Vec::new();
    for _ in 0..50 {
        started.push(guest.exec(guest.command(["cat"])).await);
    }
    for (number, exec) in started.iter().enumerate() {
        let data = Bytes::from(format!("{number}"));
        exec.input
            .send(ExecInput::Data(data))
            .await
            .expect("it reads");
    }
    for (number, exec) in started.into_iter().enumerate().rev() {
        let done = soon("one of fifty", exec.finish()).await.expect("an exit");
        assert_eq!(String::from_utf8_lossy(&done.stdout), number.to_string());
    }
}

//! Compiles the checked-in allowlist of system calls, `seccomp.txt`, to the program that the kernel
//! takes: a binary search over ranges of numbers. The kernel tries a filter on every call it knows
//! when it is put in force, so a long chain of comparisons would cost each sandbox's start dearly.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is configured by its environment"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const EAFNOSUPPORT: u32 = 97;

// Offsets in the kernel's `seccomp_data`; of an argument the lower half, little endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

type Instruction = (u16, u8, u8, u32);

#[derive(Clone, PartialEq)]
enum Answer {
    Allow,
    Unknown,
    Checked(Vec<Instruction>),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=seccomp.txt");
    println!("cargo:rerun-if-changed=build.rs");
    let (architecture, number): (u32, fn(&str) -> Option<u32>) =
        match std::env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
            "x86_64" => (0xc000_003e, x86_64),
            "aarch64" => (0xc000_00b7, aarch64),
            other => return Err(format!("no table of system calls for {other}").into()),
        };
    let list = std::fs::read_to_string("seccomp.txt")?;
    let mut answers = BTreeMap::new();
    for name in list.lines().filter(|line| !line.starts_with('#')) {
        if x86_64(name).or(aarch64(name)).is_none() {
            return Err(format!("seccomp.txt: there is no system call `{name}`").into());
        }
        answers.extend(number(name).map(|number| (number, Answer::Allow)));
    }
    for (name, program) in checked() {
        answers.extend(number(name).map(|number| (number, Answer::Checked(program))));
    }
    let mut program = vec![
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture),
        // Another architecture's numbers mean other calls.
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ];
    program.extend(search(&ranges(&answers)));
    let mut bytes = Vec::new();
    for (code, yes, no, value) in program {
        bytes.extend_from_slice(&u16::to_le_bytes(code));
        bytes.extend_from_slice(&[yes, no]);
        bytes.extend_from_slice(&u32::to_le_bytes(value));
    }
    std::fs::write(
        PathBuf::from(std::env::var("OUT_DIR")?).join("seccomp.bpf"),
        bytes,
    )?;
    Ok(())
}

fn x86_64(name: &str) -> Option<u32> {
    name.parse::<syscalls::x86_64::Sysno>()
        .ok()
        .map(|number| number as u32)
}

fn aarch64(name: &str) -> Option<u32> {
    name.parse::<syscalls::aarch64::Sysno>()
        .ok()
        .map(|number| number as u32)
}

/// Calls that are allowed with some arguments only.
fn checked() -> Vec<(&'static str, Vec<Instruction>)> {
    let refuse = |errno| (RETURN, 0, 0, ERRNO | errno);
    let allow = (RETURN, 0, 0, ALLOW);
    let one_of = |index, values: &[u32], otherwise| {
        let mut program = vec![(LOAD, 0, 0, argument(index))];
        let count = u8::try_from(values.len()).expect("a handful");
        for (place, value) in (0u8..).zip(values) {
            program.push((JUMP_EQUAL, count - place, 0, *value));
        }
        program.extend([otherwise, allow]);
        program
    };
    // AF_UNIX, AF_INET and AF_INET6; of AF_NETLINK only NETLINK_ROUTE. AF_VSOCK, for one, knows no
    // network namespaces.
    let socket = vec![
        (LOAD, 0, 0, argument(0)),
        (JUMP_EQUAL, 6, 0, 1),
        (JUMP_EQUAL, 5, 0, 2),
        (JUMP_EQUAL, 4, 0, 10),
        (JUMP_EQUAL, 0, 2, 16),
        (LOAD, 0, 0, argument(2)),
        (JUMP_EQUAL, 1, 0, 0),
        refuse(EAFNOSUPPORT),
        allow,
    ];
    // TIOCSTI, TIOCLINUX and TIOCSETD reach into a terminal that others may hold.
    let ioctl = vec![
        (LOAD, 0, 0, argument(1)),
        (JUMP_EQUAL, 3, 0, 0x5412),
        (JUMP_EQUAL, 2, 0, 0x541c),
        (JUMP_EQUAL, 1, 0, 0x5423),
        allow,
        refuse(EPERM),
    ];
    vec![
        ("socket", socket),
        ("socketpair", one_of(0, &[1], refuse(EAFNOSUPPORT))),
        ("ioctl", ioctl),
        // As usual, without randomised addresses (debuggers want that), and asking.
        (
            "personality",
            one_of(0, &[0, 0x0004_0000, u32::MAX], refuse(EPERM)),
        ),
    ]
}

/// Where each answer begins; it holds up to the next one.
fn ranges(answers: &BTreeMap<u32, Answer>) -> Vec<(u32, Answer)> {
    let mut ranges: Vec<(u32, Answer)> = vec![(0, Answer::Unknown)];
    let mut begin = |number: u32, answer: Answer| {
        if let Some(last) = ranges.last_mut()
            && last.0 == number
        {
            last.1 = answer;
        } else {
            ranges.push((number, answer));
        }
    };
    for (number, answer) in answers {
        begin(*number, answer.clone());
        begin(number + 1, Answer::Unknown);
    }
    ranges.dedup_by(|next, last| next.1 == last.1);
    ranges
}

fn search(ranges: &[(u32, Answer)]) -> Vec<Instruction> {
    if let [(_, answer)] = ranges {
        return match answer {
            Answer::Allow => vec![(RETURN, 0, 0, ALLOW)],
            Answer::Unknown => vec![(RETURN, 0, 0, ERRNO | ENOSYS)],
            Answer::Checked(program) => program.clone(),
        };
    }
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let left = search(lower);
    let skip = u8::try_from(left.len()).expect("half of the search is within a jump's reach");
    let mut program = vec![(JUMP_AT_LEAST, skip, 0, upper[0].0)];
    program.extend(left);
    program.extend(search(upper));
    program
}

//! Our own code in memory.

/// A start takes a good part of the program, and waiting for work takes hardly any of it: the rest
/// is let go, and the kernel brings back from its cache what is used again.
#[expect(unsafe_code, reason = "memory is advised on by address")]
pub fn let_go() {
    let Ok(maps) = std::fs::File::open("/proc/self/maps").and_then(std::io::read_to_string) else {
        return;
    };
    for (start, length) in maps.lines().filter_map(code) {
        // SAFETY: the range is a private mapping of a file that nobody can write to, so that each of
        // its pages is as the file has it and is read from there when it is used next.
        unsafe {
            libc::madvise(
                std::ptr::with_exposed_provenance_mut(start),
                length,
                libc::MADV_DONTNEED,
            );
        }
    }
}

/// The address and length of a mapping of executable code, from a file.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, rights) = (fields.next()?, fields.next()?);
    let inode = fields.nth(2)?;
    if rights != "r-xp" || inode == "0" {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_a_file_is_let_go() {
        let line = "7f1000-7f3000 r-xp 00001000 fe:00 42 /memfd:nacre (deleted)";
        assert_eq!(code(line), Some((0x7f_1000, 0x2000)));
        for line in [
            "7f1000-7f3000 rw-p 00001000 fe:00 42 /usr/bin/nacre",
            "7f1000-7f3000 r--p 00001000 fe:00 42 /usr/bin/nacre",
            "7ffd000-7fff000 r-xp 00000000 00:00 0 [vdso]",
            "",
        ] {
            assert_eq!(code(line), None, "{line}");
        }
    }

    #[test]
    fn what_was_let_go_runs_all_the_same() {
        let before: u32 = (1..=100).sum();
        let_go();
        assert_eq!((1..=100).sum::<u32>(), before);
    }
}

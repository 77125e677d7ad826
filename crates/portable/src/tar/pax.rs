//! PAX records: `LENGTH KEY=VALUE\n`, where the length counts itself.

use std::io;

use crate::invalid;

pub(super) fn push(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // A space, an equals sign and a newline.
    let rest = key.len() + value.len() + 3;
    let mut length = rest + digits(rest);
    if digits(length) > digits(rest) {
        length = rest + digits(length);
    }
    records.extend_from_slice(length.to_string().as_bytes());
    records.push(b' ');
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}

/// Calls `each` with every key and value.
pub(super) fn parse<'a>(
    mut records: &'a [u8],
    mut each: impl FnMut(&'a [u8], &'a [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let damaged = || invalid("the attributes of an entry are damaged");
    while !records.is_empty() {
        let space = records
            .iter()
            .take(20)
            .position(|byte| *byte == b' ')
            .ok_or_else(damaged)?;
        let length = usize::try_from(decimal(&records[..space])?).map_err(|_| damaged())?;
        if length <= space + 1 || length > records.len() || records[length - 1] != b'\n' {
            return Err(damaged());
        }
        let record = &records[space + 1..length - 1];
        let equals = record
            .iter()
            .position(|byte| *byte == b'=')
            .filter(|at| *at > 0)
            .ok_or_else(damaged)?;
        each(&record[..equals], &record[equals + 1..])?;
        records = &records[length..];
    }
    Ok(())
}

pub(super) fn decimal(text: &[u8]) -> io::Result<u64> {
    std::str::from_utf8(text)
        .ok()
        .filter(|text| !text.starts_with('+'))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| invalid("a number in it is none"))
}

/// Seconds since 1970, perhaps with a fraction, which is dropped.
pub(super) fn seconds(text: &[u8]) -> io::Result<i64> {
    let whole = text.split(|byte| *byte == b'.').next().unwrap_or_default();
    std::str::from_utf8(whole)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| invalid("a time in it is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_counts_its_own_digits() {
        for size in [0, 1, 90, 91, 92, 93, 94, 95, 990, 991, 992, 993, 994] {
            let mut records = Vec::new();
            push(&mut records, b"key", &vec![b'v'; size]);
            push(&mut records, b"path", b"next");
            let mut seen = Vec::new();
            parse(&records, |key, value| {
                seen.push((key.to_vec(), value.len()));
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, [(b"key".to_vec(), size), (b"path".to_vec(), 4)]);
        }
    }

    #[test]
    fn records_that_lie_about_their_length_are_refused() {
        for text in [
            &b"4 a=\n"[..],
            b"99 a=b\n",
            b"0 a=b\n",
            b" a=b\n",
            b"-1 a=b\n",
            b"6 =b\n",
            b"6 ab\n",
            b"18446744073709551615 a=b\n",
        ] {
            assert!(parse(text, |_, _| Ok(())).is_err(), "{text:?}");
        }
    }
}

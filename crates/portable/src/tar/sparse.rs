//! Files with holes: written as GNU tar's PAX form 1.0, read in that and in its older one.

use std::fmt::Write as _;
use std::io;

use super::read::number;
use super::{BLOCK, pax};
use crate::invalid;

/// A stretch of a file that holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub start: u64,
    pub length: u64,
}

/// More pieces than this, and a file is written with its holes filled.
pub(super) const MAX_EXTENTS: usize = 32 << 10;

/// The map that precedes the data, padded to a block. A hole at the end is told by an empty piece
/// after it, as GNU tar does and expects.
pub(super) fn map(extents: &[Extent], size: u64) -> Vec<u8> {
    let end = extents.last().map_or(0, |last| last.start + last.length);
    let last = (end < size).then_some(Extent {
        start: size,
        length: 0,
    });
    let pieces = extents.iter().copied().chain(last);
    let mut text = format!("{}\n", pieces.clone().count());
    for piece in pieces {
        let _ = writeln!(text, "{}\n{}", piece.start, piece.length);
    }
    let mut map = text.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// Reads a map block by block; gives it and how many bytes it took.
pub(super) fn read_map(
    mut next: impl FnMut() -> io::Result<[u8; BLOCK]>,
) -> io::Result<(Vec<Extent>, u64)> {
    let mut bytes: Vec<u8> = Vec::new();
    let (mut at, mut taken) = (0, 0);
    let mut number = || -> io::Result<u64> {
        loop {
            if let Some(length) = bytes[at..].iter().position(|byte| *byte == b'\n') {
                let number = pax::decimal(&bytes[at..at + length])?;
                at += length + 1;
                return Ok(number);
            }
            if bytes.len() - at > 20 {
                return Err(invalid("the map of a sparse file is damaged"));
            }
            bytes.drain(..at);
            at = 0;
            bytes.extend_from_slice(&next()?);
            taken += BLOCK as u64;
        }
    };
    let count = number()?;
    if count > MAX_EXTENTS as u64 + 1 {
        return Err(invalid("a sparse file of absurdly many pieces"));
    }
    let mut extents = Vec::new();
    for _ in 0..count {
        let (start, length) = (number()?, number()?);
        extents.push(Extent { start, length });
    }
    Ok((extents, taken))
}

/// The older form: up to four pieces in the header itself.
pub(super) fn old_extents(fields: &[u8], extents: &mut Vec<Extent>) -> io::Result<()> {
    for field in fields.chunks_exact(24) {
        if field[0] == 0 || field[12] == 0 {
            break;
        }
        extents.push(Extent {
            start: number(&field[..12])?,
            length: number(&field[12..])?,
        });
        if extents.len() > MAX_EXTENTS + 1 {
            return Err(invalid("a sparse file of absurdly many pieces"));
        }
    }
    Ok(())
}

/// In order, apart, within the file, and together as long as what is stored.
pub(super) fn check(extents: &[Extent], size: u64, stored: u64) -> io::Result<()> {
    let damaged = || invalid("the map of a sparse file contradicts itself");
    let (mut end, mut sum) = (0u64, 0u64);
    for extent in extents {
        if extent.start < end {
            return Err(damaged());
        }
        end = extent
            .start
            .checked_add(extent.length)
            .ok_or_else(damaged)?;
        sum += extent.length;
    }
    if end > size || sum != stored {
        return Err(damaged());
    }
    Ok(())
}

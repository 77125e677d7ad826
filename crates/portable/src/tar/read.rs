//! Reading a tar that may be hostile: nothing is taken into memory before its length was looked at.

use std::io::{self, BufRead};

use super::sparse::{self, Extent};
use super::{BLOCK, LITERAL, XATTR, padding, pax};
use crate::{invalid, shown};

/// What an archive may ask of us.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub entries: u64,
    pub path: usize,
    pub depth: usize,
    /// Of names and attributes of one entry, together.
    pub extension: u64,
    /// Of all files as they will look, holes included.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    /// Another name of an earlier entry.
    Link,
    Fifo,
    Device,
}

#[derive(Debug, Clone)]
pub struct Entry {
    /// Without leading or trailing slashes; empty for the root.
    pub path: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub mtime: i64,
    /// Of the file as it will look.
    pub size: u64,
    pub link: Vec<u8>,
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its name is no whiteout, whatever it looks like.
    pub literal: bool,
    /// Where the data goes, if the file has holes.
    pub extents: Option<Vec<Extent>>,
}

#[derive(Debug)]
pub struct Reader<R> {
    inner: R,
    limits: Limits,
    /// Of the current entry's data.
    left: u64,
    padding: usize,
    entries: u64,
    bytes: u64,
}

/// What the headers before an entry say of it.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<i64>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    literal: bool,
    sparse_version: (Option<u64>, Option<u64>),
    sparse_name: Option<Vec<u8>>,
    sparse_size: Option<u64>,
}

impl<R: BufRead> Reader<R> {
    pub fn new(inner: R, limits: Limits) -> Self {
        Self {
            inner,
            limits,
            left: 0,
            padding: 0,
            entries: 0,
            bytes: 0,
        }
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub fn inner(&self) -> &R {
        &self.inner
    }

    pub fn inner_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The next entry; what is left of the last one's data is skipped.
    pub fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        self.skip(self.left)?;
        self.skip(self.padding as u64)?;
        (self.left, self.padding) = (0, 0);
        let mut extensions = Extensions::default();
        let mut extended = 0;
        loop {
            let Some(header) = self.header()? else {
                if extended > 0 {
                    return Err(invalid("it ends in the middle of an entry"));
                }
                return Ok(None);
            };
            let size = number(&header[124..136])?;
            let kind = header[156];
            if !matches!(kind, b'x' | b'L' | b'K') {
                return self.entry(&header, size, extensions).map(Some);
            }
            extended = u64::saturating_add(extended, size.max(1));
            if extended > self.limits.extension {
                return Err(invalid("a name or attribute in it is absurdly long"));
            }
            let value = self.value(size)?;
            let name = || value.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
            match kind {
                b'L' => extensions.path = name(),
                b'K' => extensions.link = name(),
                _ => extensions.read(&value)?,
            }
        }
    }

    /// The next piece of the current entry's data; empty at its end.
    pub fn data(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let piece = self.inner.fill_buf()?;
        if piece.is_empty() {
            return Err(cut_off());
        }
        let length = usize::try_from(self.left).map_or(piece.len(), |left| left.min(piece.len()));
        Ok(&piece[..length])
    }

    /// Says that so much of [`Self::data`] was used.
    pub fn used(&mut self, length: usize) {
        self.inner.consume(length);
        self.left -= length as u64;
    }

    /// Leaves the current entry's data out, by consuming it unread: for a source that can.
    pub(crate) fn go_over(&mut self) -> io::Result<()> {
        let length = self.left.saturating_add(self.padding as u64);
        self.inner
            .consume(usize::try_from(length).map_err(|_| cut_off())?);
        (self.left, self.padding) = (0, 0);
        Ok(())
    }

    fn entry(
        &mut self,
        header: &[u8; BLOCK],
        size: u64,
        extensions: Extensions,
    ) -> io::Result<Entry> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(invalid("it has more entries than it may"));
        }
        let kind = match header[156] {
            b'0' | b'\0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::Link,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => {
                return Err(invalid(format!(
                    "an entry of the unknown type `{}`",
                    char::from(other).escape_default()
                )));
            }
        };
        let stored = extensions.size.unwrap_or(size);
        // Only files have data; what others claim to have would hide entries.
        self.left = if kind == Kind::File { stored } else { 0 };
        if kind != Kind::File && stored > 0 {
            return Err(invalid("an entry that is no file has content"));
        }
        self.padding = padding(self.left);
        let mut entry = Entry {
            path: Vec::new(),
            kind,
            mode: u32::try_from(number(&header[100..108])?)
                .map_err(|_| invalid("a mode in it is none"))?,
            uid: extensions
                .uid
                .map_or_else(|| number(&header[108..116]), Ok)?,
            gid: extensions
                .gid
                .map_or_else(|| number(&header[116..124]), Ok)?,
            mtime: extensions
                .mtime
                .map_or_else(|| time(&header[136..148]), Ok)?,
            size: self.left,
            link: extensions
                .link
                .clone()
                .unwrap_or_else(|| text(&header[157..257]).to_vec()),
            attributes: Vec::new(),
            literal: extensions.literal,
            extents: None,
        };
        if header[156] == b'S' {
            self.old_sparse(header, &mut entry)?;
        } else if extensions.sparse_version != (None, None) {
            self.sparse(&extensions, &mut entry)?;
        }
        let path = extensions
            .sparse_name
            .or(extensions.path)
            .unwrap_or_else(|| name(header));
        entry.path = clean(&path, &self.limits)?;
        entry.attributes = extensions.attributes;
        self.bytes = self.bytes.saturating_add(entry.size);
        if self.bytes > self.limits.bytes {
            return Err(invalid("it is larger than it may be"));
        }
        Ok(entry)
    }

    fn sparse(&mut self, extensions: &Extensions, entry: &mut Entry) -> io::Result<()> {
        let (Some(1), Some(0)) = extensions.sparse_version else {
            return Err(invalid("a sparse file in a form that is not read"));
        };
        if entry.kind != Kind::File {
            return Err(invalid("a sparse entry that is no file"));
        }
        let mut left = self.left;
        let (extents, taken) = sparse::read_map(|| {
            left = left.checked_sub(BLOCK as u64).ok_or_else(cut_off)?;
            block(&mut self.inner)?.ok_or_else(cut_off)
        })?;
        self.left -= taken;
        entry.size = extensions
            .sparse_size
            .ok_or_else(|| invalid("a sparse file without a size"))?;
        sparse::check(&extents, entry.size, self.left)?;
        entry.extents = Some(extents);
        Ok(())
    }

    fn old_sparse(&mut self, header: &[u8; BLOCK], entry: &mut Entry) -> io::Result<()> {
        let mut extents = Vec::new();
        sparse::old_extents(&header[386..482], &mut extents)?;
        let mut more = header[482] == 1;
        while more {
            let next = block(&mut self.inner)?.ok_or_else(cut_off)?;
            sparse::old_extents(&next[..504], &mut extents)?;
            more = next[504] == 1;
        }
        entry.size = number(&header[483..495])?;
        sparse::check(&extents, entry.size, self.left)?;
        entry.extents = Some(extents);
        Ok(())
    }

    /// A header whose sum is right; `None` at the end.
    fn header(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        let Some(header) = block(&mut self.inner)? else {
            return Ok(None);
        };
        if header.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum = |signed: bool| -> i64 {
            header
                .iter()
                .enumerate()
                .map(|(at, byte)| match (at, signed) {
                    (148..156, _) => i64::from(b' '),
                    (_, false) => i64::from(*byte),
                    (_, true) => i64::from(byte.cast_signed()),
                })
                .sum()
        };
        let said = i64::try_from(number(&header[148..156])?).unwrap_or(-1);
        // Some old programs added the bytes up as signed ones.
        if said != sum(false) && said != sum(true) {
            return Err(invalid("it is no tar, or a damaged one"));
        }
        Ok(Some(header))
    }

    fn value(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(size).map_err(|_| cut_off())?;
        let mut value = vec![0; length];
        self.inner.read_exact(&mut value).map_err(short)?;
        self.skip(padding(size) as u64)?;
        Ok(value)
    }

    fn skip(&mut self, mut left: u64) -> io::Result<()> {
        while left > 0 {
            let piece = self.inner.fill_buf()?;
            if piece.is_empty() {
                return Err(cut_off());
            }
            let length = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            self.inner.consume(length);
            left -= length as u64;
        }
        Ok(())
    }
}

impl Extensions {
    fn read(&mut self, records: &[u8]) -> io::Result<()> {
        pax::parse(records, |key, value| {
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => self.size = Some(pax::decimal(value)?),
                b"uid" => self.uid = Some(pax::decimal(value)?),
                b"gid" => self.gid = Some(pax::decimal(value)?),
                b"mtime" => self.mtime = Some(pax::seconds(value)?),
                b"GNU.sparse.major" => self.sparse_version.0 = Some(pax::decimal(value)?),
                b"GNU.sparse.minor" => self.sparse_version.1 = Some(pax::decimal(value)?),
                b"GNU.sparse.name" => self.sparse_name = Some(value.to_vec()),
                b"GNU.sparse.realsize" => self.sparse_size = Some(pax::decimal(value)?),
                // The forms before 1.0, whose map we would otherwise take for the file's size.
                b"GNU.sparse.map" | b"GNU.sparse.numblocks" | b"GNU.sparse.size" => {
                    return Err(invalid("a sparse file in a form that is not read"));
                }
                LITERAL => self.literal = true,
                _ => {
                    if let Some(name) = key.strip_prefix(XATTR) {
                        self.attributes.push((name.to_vec(), value.to_vec()));
                    }
                }
            }
            Ok(())
        })
    }
}

/// A relative path without `.`, `..`, doubled or trailing slashes.
fn clean(path: &[u8], limits: &Limits) -> io::Result<Vec<u8>> {
    if path.starts_with(b"/") {
        return Err(invalid(format!("`{}` is an absolute path", shown(path))));
    }
    if path.is_empty() || path.len() > limits.path || path.contains(&0) {
        return Err(invalid(format!("`{}…` is no path", shown(path))));
    }
    let mut clean = Vec::with_capacity(path.len());
    let mut depth = 0;
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => {
                return Err(invalid(format!(
                    "`{}` leads out of the archive",
                    shown(path)
                )));
            }
            component if component.len() > 255 => {
                return Err(invalid(format!("`{}…` is too long", shown(path))));
            }
            _ => {}
        }
        if !clean.is_empty() {
            clean.push(b'/');
        }
        clean.extend_from_slice(component);
        depth += 1;
    }
    if depth > limits.depth {
        return Err(invalid(format!("`{}…` is nested too deep", shown(path))));
    }
    Ok(clean)
}

/// The target of a hard link, by the same rules.
pub(crate) fn clean_link(entry: &Entry, limits: &Limits) -> io::Result<Vec<u8>> {
    let target = clean(&entry.link, limits)?;
    if target.is_empty() {
        return Err(invalid("a hard link to a directory"));
    }
    Ok(target)
}

fn name(header: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(&header[..100]);
    let prefix = text(&header[345..500]);
    // Other forms have other things in that place.
    if &header[257..263] == b"ustar\0" && !prefix.is_empty() {
        return [prefix, b"/", name].concat();
    }
    name.to_vec()
}

fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits among spaces and zeros, or a binary number whose first bit is set.
pub(super) fn number(field: &[u8]) -> io::Result<u64> {
    let damaged = || invalid("it is no tar, or a damaged one");
    if field[0] & 0x80 != 0 {
        let (head, tail) = field.split_at(field.len() - 8.min(field.len() - 1));
        let clear = |(at, byte): (usize, &u8)| *byte == if at == 0 { 0x80 } else { 0 };
        if !head.iter().enumerate().all(clear) {
            return Err(damaged());
        }
        return Ok(tail.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    }
    let digits = field
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
        .trim_ascii();
    digits.iter().try_fold(0u64, |sum, byte| match byte {
        b'0'..=b'7' if sum < 1 << 60 => Ok(sum << 3 | u64::from(byte - b'0')),
        _ => Err(damaged()),
    })
}

/// As [`number`], but a time may be before 1970.
fn time(field: &[u8]) -> io::Result<i64> {
    if field[0] == 0xff {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&field[field.len() - 8..]);
        return Ok(i64::from_be_bytes(bytes));
    }
    i64::try_from(number(field)?).map_err(|_| invalid("a time in it is none"))
}

fn block(inner: &mut impl BufRead) -> io::Result<Option<[u8; BLOCK]>> {
    if inner.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut block = [0; BLOCK];
    inner.read_exact(&mut block).map_err(short)?;
    Ok(Some(block))
}

fn short(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        cut_off()
    } else {
        error
    }
}

fn cut_off() -> io::Error {
    invalid("it is cut off, or damaged")
}

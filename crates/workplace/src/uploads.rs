//! What was uploaded to the hub, fetched in pieces so that no frame is long.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wire::link::{ReadUpload, UploadPiece};

use crate::link::{Handle, Who};

/// In base 64 it leaves room in a frame.
const PIECE: u64 = 512 << 10;

/// One upload, from its beginning.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    link: &'a Handle,
    upload: &'a str,
    read: u64,
}

/// Some of it, and how much it is in all.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) is_last: bool,
}

impl<'a> Pieces<'a> {
    pub(crate) fn of(upload: &'a str, link: &'a Handle) -> Self {
        Self {
            link,
            upload,
            read: 0,
        }
    }

    /// Not after the last one.
    pub(crate) async fn next(&mut self) -> Result<Piece, String> {
        let ask = ReadUpload {
            upload: self.upload.to_owned(),
            offset: self.read,
            length: PIECE,
        };
        let UploadPiece { data, size } = self
            .link
            .ask(&ask, Who::default())
            .await
            .map_err(|error| error.to_string())?;
        let bytes = STANDARD
            .decode(data)
            .map_err(|_| "what the hub sent is not base 64".to_owned())?;
        self.read += bytes.len() as u64;
        if self.read > size || (bytes.is_empty() && self.read < size) {
            return Err(format!("of {size} bytes the hub sent {}", self.read));
        }
        Ok(Piece {
            bytes,
            size,
            is_last: self.read == size,
        })
    }
}

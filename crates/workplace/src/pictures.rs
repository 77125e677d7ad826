//! Pictures on their way into the conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wire::link::{FromRunner, Image, MAX_INLINE, Source};

use crate::devtools::Picture;
use crate::link::{Handle, Who};

/// Of a picture, before it is base 64.
pub(crate) const MOST_BYTES: usize = MAX_INLINE / 4 * 3;
const LONGEST_DESCRIPTION: usize = 2000;

/// What cannot be shown is refused with the reason.
pub(crate) async fn show(link: &Handle, picture: Picture, who: Who) -> Result<(), String> {
    let Picture {
        media_type,
        data,
        description,
    } = picture;
    if data.len() > MAX_INLINE {
        return Err(format!(
            "`data` has more than {MAX_INLINE} characters; make the picture smaller"
        ));
    }
    let bytes = STANDARD.decode(&data);
    let bytes = bytes.map_err(|_| "`data` is not base 64".to_owned())?;
    let found = kind(&bytes).ok_or("this is no PNG, JPEG, GIF or WebP")?;
    if !media_type.is_empty() && media_type != found {
        return Err(format!(
            "`mime_type` says {media_type}, and this is {found}"
        ));
    }
    let image = FromRunner::Image {
        image: Image {
            media_type: found.to_owned(),
            source: Source::Data(data),
            description: description.map(|text| text.chars().take(LONGEST_DESCRIPTION).collect()),
        },
        prompt_id: who.prompt_id,
        message_id: None,
    };
    link.say(image).await.map_err(|error| error.to_string())
}

/// By how it begins: its name says nothing.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_how_it_begins() {
        assert_eq!(kind(b"\x89PNG\r\n"), Some("image/png"));
        assert_eq!(kind(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(kind(b"<svg onload=alert(1)>"), None);
        assert_eq!(kind(b""), None);
    }
}

use camino::Utf8Path;

const TYPES: [(&str, &str); 31] = [
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("log", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("toml", "text/plain; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("yaml", "text/plain; charset=utf-8"),
    ("zip", "application/zip"),
];

/// By the name alone; unknown ones are text when their beginning is.
pub fn content_type(path: &str, beginning: &[u8]) -> &'static str {
    let extension = Utf8Path::new(path).extension().unwrap_or("");
    let extension = extension.to_ascii_lowercase();
    let known = TYPES.iter().find(|(known, _)| *known == extension);
    if let Some((_, kind)) = known {
        return kind;
    }
    let beginning = &beginning[..beginning.len().min(1024)];
    let is_text = !beginning.contains(&0)
        && match std::str::from_utf8(beginning) {
            Ok(_) => true,
            // Cut in the middle of a character.
            Err(error) => error.error_len().is_none(),
        };
    if is_text {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_else_its_beginning_tells_the_type() {
        assert_eq!(content_type("a/b.PNG", b""), "image/png");
        assert_eq!(
            content_type("Makefile", b"all:\n"),
            "text/plain; charset=utf-8"
        );
        assert_eq!(
            content_type("core", b"\x7fELF\0"),
            "application/octet-stream"
        );
        assert_eq!(content_type("odd", b"\xff\xfe"), "application/octet-stream");
    }
}

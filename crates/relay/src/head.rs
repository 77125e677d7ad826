/// Request line and fields together.
pub const MAX_HEAD: usize = 16 << 10;
const MAX_FIELDS: usize = 128;
const MAX_METHOD: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("the head is larger than 16 KiB")]
    TooLarge,
    #[error("more than 128 fields")]
    TooManyFields,
    #[error("a line ends without a carriage return")]
    BareLineFeed,
    #[error("the first line is not of HTTP/1")]
    FirstLine,
    #[error("only HTTP/1.0 and HTTP/1.1 are spoken")]
    Version,
    #[error("what is asked for is neither a path, nor http://host/path, nor CONNECT host:port")]
    Target,
    #[error("the path has a character that must be encoded")]
    Path,
    #[error("a field's name is not a token, or a space precedes its colon")]
    FieldName,
    #[error("a field has a control character")]
    FieldValue,
    #[error("a field goes on on the next line")]
    Folded,
    #[error("more than one Host")]
    SecondHost,
    #[error("Content-Length is not one number")]
    Length,
    #[error("Transfer-Encoding is something else than one `chunked`")]
    TransferEncoding,
    #[error("both Content-Length and Transfer-Encoding")]
    TwoLengths,
}

impl HeadError {
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "head-too-large",
            Self::TooManyFields => "too-many-fields",
            Self::BareLineFeed => "bare-line-feed",
            Self::FirstLine => "first-line",
            Self::Version => "version",
            Self::Target => "target",
            Self::Path => "path",
            Self::FieldName => "field-name",
            Self::FieldValue => "field-value",
            Self::Folded => "folded",
            Self::SecondHost => "second-host",
            Self::Length => "length",
            Self::TransferEncoding => "transfer-encoding",
            Self::TwoLengths => "two-lengths",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// How long a message's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    None,
    Length(u64),
    Chunked,
    /// A response's only: until its sender closes.
    UntilClose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'a> {
    Connect {
        authority: &'a [u8],
    },
    /// `path` may be empty, or begin with a question mark.
    Absolute {
        authority: &'a [u8],
        path: &'a [u8],
    },
    OtherScheme,
    /// For the one who was asked; begins with a slash.
    Path(&'a [u8]),
}

#[derive(Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    pub form: Form<'a>,
    pub version: Version,
    pub fields: Fields<'a>,
    pub body: Body,
    pub keep_alive: bool,
}

#[derive(Debug)]
pub struct Response<'a> {
    pub version: Version,
    pub status: u16,
    /// The status and what follows it, as it came.
    pub status_line: &'a [u8],
    pub fields: Fields<'a>,
    length: Body,
    pub keep_alive: bool,
}

/// The fields of a head, in their order.
#[derive(Debug)]
pub struct Fields<'a>(Vec<(&'a [u8], &'a [u8])>);

/// The length of the head at the start of `bytes`, with its empty line; `None` while it is not
/// whole. `looked_at` bytes were looked at before.
pub fn head_length(bytes: &[u8], looked_at: usize) -> Result<Option<usize>, HeadError> {
    // The line feed that ends the head may be the next byte, and its line began before.
    for at in looked_at..bytes.len() {
        if bytes[at] != b'\n' {
            continue;
        }
        if at == 0 || bytes[at - 1] != b'\r' {
            return Err(HeadError::BareLineFeed);
        }
        if at >= MAX_HEAD {
            return Err(HeadError::TooLarge);
        }
        if at >= 3 && &bytes[at - 3..=at] == b"\r\n\r\n" {
            return Ok(Some(at + 1));
        }
    }
    if bytes.len() >= MAX_HEAD {
        Err(HeadError::TooLarge)
    } else {
        Ok(None)
    }
}

/// Reads a whole head, its empty line included.
pub fn parse_request(head: &[u8]) -> Result<Request<'_>, HeadError> {
    let (first, fields) = lines(head)?;
    let mut parts = first.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(HeadError::FirstLine);
    };
    if !is_token(method) || method.len() > MAX_METHOD {
        return Err(HeadError::FirstLine);
    }
    let method = std::str::from_utf8(method).map_err(|_| HeadError::FirstLine)?;
    let version = parse_version(version)?;
    let form = form(method, target)?;
    let fields = parse_fields(fields)?;
    if fields.all("host").count() > 1 {
        return Err(HeadError::SecondHost);
    }
    let body = match fields.body()? {
        // HTTP/1.0 has no chunks; a server that ignores them would take the body for a request.
        Some(Body::Chunked) if version == Version::Http10 => {
            return Err(HeadError::TransferEncoding);
        }
        Some(body) => body,
        None => Body::None,
    };
    Ok(Request {
        method,
        form,
        version,
        body,
        keep_alive: fields.keep_alive(version),
        fields,
    })
}

pub fn parse_response(head: &[u8]) -> Result<Response<'_>, HeadError> {
    let (first, fields) = lines(head)?;
    let space = first
        .iter()
        .position(|byte| *byte == b' ')
        .ok_or(HeadError::FirstLine)?;
    let version = parse_version(&first[..space])?;
    let status_line = &first[space + 1..];
    let (digits, reason) = status_line
        .split_at_checked(3)
        .ok_or(HeadError::FirstLine)?;
    let status: u16 = std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|status| (100..600).contains(status))
        .ok_or(HeadError::FirstLine)?;
    if !reason.is_empty() && reason[0] != b' ' || !reason.iter().copied().all(is_value_byte) {
        return Err(HeadError::FirstLine);
    }
    let fields = parse_fields(fields)?;
    let length = fields.body()?.unwrap_or(Body::UntilClose);
    Ok(Response {
        version,
        status,
        status_line,
        length,
        keep_alive: fields.keep_alive(version),
        fields,
    })
}

impl Response<'_> {
    /// What follows the head, as an answer to this method.
    pub fn body(&self, method: &str) -> Body {
        match self.status {
            100..=199 | 204 | 304 => Body::None,
            _ if method == "HEAD" => Body::None,
            _ => self.length,
        }
    }

    /// The length that the head tells, whether or not a body follows.
    pub fn told_length(&self) -> Body {
        match self.status {
            100..=199 | 204 => Body::None,
            _ => self.length,
        }
    }
}

impl<'a> Fields<'a> {
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + '_ {
        self.0.iter().copied()
    }

    pub fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.0
            .iter()
            .filter(move |(of, _)| of.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| *value)
    }

    /// Names in `Connection`, which are for the next hop alone.
    pub fn is_named_in_connection(&self, name: &[u8]) -> bool {
        self.all("connection")
            .chain(self.all("proxy-connection"))
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|named| named.trim_ascii().eq_ignore_ascii_case(name))
    }

    fn keep_alive(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.is_named_in_connection(b"close"),
            // Too old to be worth the doubt.
            Version::Http10 => false,
        }
    }

    fn body(&self) -> Result<Option<Body>, HeadError> {
        let mut lengths = self.all("content-length");
        let mut encodings = self.all("transfer-encoding");
        let (length, encoding) = (lengths.next(), encodings.next());
        if length.is_some() && encoding.is_some() {
            return Err(HeadError::TwoLengths);
        }
        if lengths.next().is_some() {
            return Err(HeadError::Length);
        }
        if encodings.next().is_some() {
            return Err(HeadError::TransferEncoding);
        }
        if let Some(encoding) = encoding {
            return if encoding.eq_ignore_ascii_case(b"chunked") {
                Ok(Some(Body::Chunked))
            } else {
                Err(HeadError::TransferEncoding)
            };
        }
        length.map(parse_length).transpose()
    }
}

fn parse_length(text: &[u8]) -> Result<Body, HeadError> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::Length);
    }
    let length = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(HeadError::Length)?;
    Ok(if length == 0 {
        Body::None
    } else {
        Body::Length(length)
    })
}

fn form<'a>(method: &str, target: &'a [u8]) -> Result<Form<'a>, HeadError> {
    if method == "CONNECT" {
        return Ok(Form::Connect { authority: target });
    }
    // A fragment is the client's own, and a backslash is a slash to some.
    let is_path_byte = |byte: &u8| *byte > b' ' && *byte != 0x7f && !matches!(byte, b'#' | b'\\');
    if target.starts_with(b"/") {
        let is_path = target.iter().all(is_path_byte);
        return is_path.then_some(Form::Path(target)).ok_or(HeadError::Path);
    }
    let scheme_end = target.windows(3).position(|three| three == b"://");
    let Some(scheme_end) =
        scheme_end.filter(|end| target[..*end].iter().all(u8::is_ascii_alphanumeric))
    else {
        return Err(HeadError::Target);
    };
    let (scheme, rest) = (&target[..scheme_end], &target[scheme_end + 3..]);
    if !scheme.eq_ignore_ascii_case(b"http") {
        return Ok(Form::OtherScheme);
    }
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#' | b'\\'))
        .unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !path.iter().all(is_path_byte) {
        return Err(HeadError::Path);
    }
    Ok(Form::Absolute { authority, path })
}

/// The first line, and the rest up to the empty line.
fn lines(head: &[u8]) -> Result<(&[u8], &[u8]), HeadError> {
    let whole = head.strip_suffix(b"\r\n\r\n").ok_or(HeadError::FirstLine)?;
    let end = whole
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(whole.len());
    let first = &whole[..end];
    let rest = whole.get(end + 1..).unwrap_or_default();
    let first = if end == whole.len() {
        first
    } else {
        first.strip_suffix(b"\r").ok_or(HeadError::BareLineFeed)?
    };
    Ok((first, rest))
}

fn parse_fields(mut rest: &[u8]) -> Result<Fields<'_>, HeadError> {
    let mut fields = Vec::with_capacity(16);
    while !rest.is_empty() {
        let (line, next) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (
                rest[..end]
                    .strip_suffix(b"\r")
                    .ok_or(HeadError::BareLineFeed)?,
                &rest[end + 1..],
            ),
            None => (rest, &[][..]),
        };
        if fields.len() == MAX_FIELDS {
            return Err(HeadError::TooManyFields);
        }
        fields.push(parse_field(line)?);
        rest = next;
    }
    Ok(Fields(fields))
}

fn parse_field(line: &[u8]) -> Result<(&[u8], &[u8]), HeadError> {
    if line
        .first()
        .is_some_and(|byte| matches!(byte, b' ' | b'\t'))
    {
        return Err(HeadError::Folded);
    }
    let colon = line
        .iter()
        .position(|byte| *byte == b':')
        .ok_or(HeadError::FieldName)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if !is_token(name) {
        return Err(HeadError::FieldName);
    }
    if !value.iter().copied().all(is_value_byte) {
        return Err(HeadError::FieldValue);
    }
    Ok((name, value))
}

fn parse_version(text: &[u8]) -> Result<Version, HeadError> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        other if other.starts_with(b"HTTP/") => Err(HeadError::Version),
        _ => Err(HeadError::FirstLine),
    }
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;

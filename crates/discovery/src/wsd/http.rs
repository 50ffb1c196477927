//! One HTTP request and its response. DPWS, section 3.3 "HTTP".
//!
//! The server answers one request of a connection and closes it. A metadata exchange needs no more.

use std::str;

/// The most bytes of a request, with its head.
pub(crate) const MAX_REQUEST_SIZE: usize = 32 * 1024;
pub(crate) const MAX_HEAD_SIZE: usize = 8 * 1024;
pub(crate) const MAX_FIELDS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    LengthRequired,
    ContentTooLarge,
    UnsupportedMediaType,
    ExpectationFailed,
    HeadTooLarge,
    InternalServerError,
    VersionNotSupported,
}

impl Status {
    /// The status code and the reason phrase. RFC 9110, section 15 "Status Codes".
    pub(crate) const fn line(self) -> (u16, &'static str) {
        match self {
            Self::Ok => (200, "OK"),
            Self::BadRequest => (400, "Bad Request"),
            Self::NotFound => (404, "Not Found"),
            Self::MethodNotAllowed => (405, "Method Not Allowed"),
            Self::LengthRequired => (411, "Length Required"),
            Self::ContentTooLarge => (413, "Content Too Large"),
            Self::UnsupportedMediaType => (415, "Unsupported Media Type"),
            Self::ExpectationFailed => (417, "Expectation Failed"),
            Self::HeadTooLarge => (431, "Request Header Fields Too Large"),
            Self::InternalServerError => (500, "Internal Server Error"),
            Self::VersionNotSupported => (505, "HTTP Version Not Supported"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// The caller reads more, up to [`MAX_REQUEST_SIZE`] bytes in all.
    Incomplete,
    /// The content of a POST to the path.
    Content(&'a [u8]),
    /// The caller sends this and closes the connection.
    Error(Status),
}

/// Parses what was received so far. `path` is the only path that exists, such as `/UUID`.
pub(crate) fn parse<'a>(bytes: &'a [u8], path: &str) -> Parsed<'a> {
    let window = bytes.get(..MAX_HEAD_SIZE).unwrap_or(bytes);
    let Some(end) = window.windows(4).position(|it| it == b"\r\n\r\n") else {
        return if bytes.len() >= MAX_HEAD_SIZE { Parsed::Error(Status::HeadTooLarge) } else { Parsed::Incomplete };
    };
    let (Some(head), Some(rest)) = (bytes.get(..end), bytes.get(end + 4..)) else {
        return Parsed::Error(Status::BadRequest);
    };
    let length = match parse_head(head, path) {
        Ok(length) => length,
        Err(status) => return Parsed::Error(status),
    };
    if length > MAX_REQUEST_SIZE.saturating_sub(end + 4) {
        return Parsed::Error(Status::ContentTooLarge);
    }
    match rest.len() {
        received if received < length => Parsed::Incomplete,
        received if received == length => Parsed::Content(rest),
        // A second request would get no answer.
        _ => Parsed::Error(Status::BadRequest),
    }
}

/// Returns the length of the content.
fn parse_head(head: &[u8], path: &str) -> Result<usize, Status> {
    let head = str::from_utf8(head).map_err(|_| Status::BadRequest)?;
    // A carriage return or a line feed alone could mean different things to a program in between.
    if head.replace("\r\n", "").contains(|it: char| it.is_ascii_control() && it != '\t') {
        return Err(Status::BadRequest);
    }
    let mut lines = head.split("\r\n");
    let request: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = request.as_slice() else {
        return Err(Status::BadRequest);
    };
    if method.is_empty() || !method.bytes().all(is_token) || target.is_empty() {
        return Err(Status::BadRequest);
    }
    match *version {
        "HTTP/1.1" => {}
        other if other.starts_with("HTTP/") => return Err(Status::VersionNotSupported),
        _ => return Err(Status::BadRequest),
    }
    let fields = Fields::parse(lines)?;
    if *method != "POST" {
        return Err(Status::MethodNotAllowed);
    }
    if !request_path(target).eq_ignore_ascii_case(path) {
        return Err(Status::NotFound);
    }
    fields.content_length()
}

/// RFC 9112, section 3.2.2 "absolute-form": a server accepts it.
fn request_path(target: &str) -> &str {
    let Some((scheme, rest)) = target.split_once("://") else {
        return target;
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return target;
    }
    rest.find('/').and_then(|start| rest.get(start..)).unwrap_or("/")
}

#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a str>,
    length: Option<&'a str>,
    media_type: Option<&'a str>,
    has_transfer_encoding: bool,
    has_expectation: bool,
}

impl<'a> Fields<'a> {
    fn parse(lines: impl Iterator<Item = &'a str>) -> Result<Self, Status> {
        let mut fields = Self::default();
        for (count, line) in lines.enumerate() {
            if count >= MAX_FIELDS {
                return Err(Status::HeadTooLarge);
            }
            let (name, value) = line.split_once(':').ok_or(Status::BadRequest)?;
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(Status::BadRequest);
            }
            let value = value.trim_matches([' ', '\t']);
            let single = match name.to_ascii_lowercase().as_str() {
                "host" => &mut fields.host,
                "content-length" => &mut fields.length,
                "content-type" => &mut fields.media_type,
                "transfer-encoding" => {
                    fields.has_transfer_encoding = true;
                    continue;
                }
                "expect" => {
                    fields.has_expectation = true;
                    continue;
                }
                _ => continue,
            };
            if single.replace(value).is_some() {
                return Err(Status::BadRequest);
            }
        }
        if fields.host.is_none() { Err(Status::BadRequest) } else { Ok(fields) }
    }

    fn content_length(&self) -> Result<usize, Status> {
        if self.has_transfer_encoding {
            // RFC 9112, section 6.1: both together is how requests are smuggled.
            return Err(if self.length.is_some() { Status::BadRequest } else { Status::LengthRequired });
        }
        if self.has_expectation {
            return Err(Status::ExpectationFailed);
        }
        let length = self.length.ok_or(Status::LengthRequired)?;
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Status::BadRequest);
        }
        let media_type = self.media_type.unwrap_or_default().split(';').next().unwrap_or_default();
        if !media_type.trim().eq_ignore_ascii_case("application/soap+xml") {
            return Err(Status::UnsupportedMediaType);
        }
        length.parse().map_err(|_| Status::ContentTooLarge)
    }
}

/// RFC 9110, section 5.6.2 "Tokens".
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The bytes of a response. The content may be empty.
pub(crate) fn response(status: Status, content: &str) -> Vec<u8> {
    let (code, phrase) = status.line();
    let mut head = format!("HTTP/1.1 {code} {phrase}\r\nContent-Length: {}\r\nConnection: close\r\n", content.len());
    if !content.is_empty() {
        head.push_str("Content-Type: application/soap+xml\r\n");
    }
    if status == Status::MethodNotAllowed {
        head.push_str("Allow: POST\r\n");
    }
    head.push_str("\r\n");
    head.push_str(content);
    head.into_bytes()
}

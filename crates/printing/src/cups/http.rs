//! One POST of HTTP/1.1 (RFC 9112) over a connection of its own, with a document that is read from a file meanwhile.

use std::io;
use std::time::Duration;

use server::printing::SpoolFile;
use server::vfs::read_into;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// The maximum number of bytes of a line of a response's head, and of its lines.
const LONGEST_LINE: u64 = 8 * 1024;
const LINES: usize = 128;
/// The maximum number of responses that say that the real one follows.
const INTERIM: usize = 8;
/// How many bytes of the document are sent at once.
pub(crate) const CHUNK: usize = 256 * 1024;

/// Why there is no response of IPP.
#[derive(Debug)]
pub(super) enum Failure {
    /// The document cannot be read. The server has done nothing wrong.
    Document(String),
    /// The response has another status than 200: its number, and the line with it.
    Status(u16, String),
    /// The connection failed.
    Connection(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Connection(error)
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// A request to send.
pub(super) struct Post<'a> {
    /// The path.
    pub(super) path: &'a str,
    /// The value of `Authorization`, if there is one.
    pub(super) authorization: Option<String>,
    /// The message of IPP.
    pub(super) message: &'a [u8],
    /// The document after it, and its size.
    pub(super) document: Option<(&'a SpoolFile, u64)>,
    /// How long a step of sending may take.
    pub(super) step: Duration,
    /// How long the response may take.
    pub(super) response: Duration,
    /// The maximum number of bytes of its body.
    pub(super) longest: usize,
}

/// Sends a request and returns the body of the response.
pub(super) async fn post(stream: impl AsyncRead + AsyncWrite + Unpin, post: Post<'_>) -> Result<Vec<u8>> {
    let mut stream = BufReader::new(stream);
    let sent = send(stream.get_mut(), &post).await;
    // A server that refuses a job may close the connection before it has read it, and has answered then.
    let patience = match &sent {
        Ok(()) => post.response,
        Err(Failure::Document(_)) => return sent.map(|()| Vec::new()),
        Err(Failure::Connection(error)) if error.kind() == io::ErrorKind::TimedOut => Duration::ZERO,
        Err(_) => post.step,
    };
    let received = timeout(patience, receive(&mut stream, post.longest)).await;
    match (sent, received.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))) {
        (_, Ok(body)) => Ok(body),
        // It is the answer.
        (_, Err(status @ Failure::Status(..))) => Err(status),
        (Err(error), _) | (Ok(()), Err(error)) => Err(error),
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), post: &Post<'_>) -> Result<()> {
    let size = post.document.as_ref().map_or(0, |(_, size)| *size);
    let length = post.message.len() as u64 + size;
    let authorization = post.authorization.as_ref().map(|value| format!("Authorization: {value}\r\n"));
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: frevo\r\nContent-Type: application/ipp\r\n\
         Content-Length: {length}\r\n{}Connection: close\r\n\r\n",
        post.path,
        authorization.unwrap_or_default()
    );
    let write = async |stream: &mut _, bytes: &[u8]| {
        let written = timeout(post.step, AsyncWriteExt::write_all(stream, bytes)).await;
        written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut)).flatten()
    };
    write(stream, &[head.as_bytes(), post.message].concat()).await?;
    let Some((spool, size)) = post.document else { return Ok(()) };
    let least = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK);
    let (mut offset, mut buffer) = (0, vec![0; least(size)]);
    while offset < size {
        let wanted = least(size - offset);
        buffer.truncate(wanted);
        let (read, count) = read_into(&spool.node, &spool.op, offset, buffer, 0).await;
        let count = count.map_err(|errno| Failure::Document(format!("the job's file cannot be read: {errno:?}")))?;
        if count == 0 {
            return Err(Failure::Document("the job's file was truncated by another program".to_owned()));
        }
        write(stream, &read[..count]).await?;
        offset += count as u64;
        buffer = read;
    }
    Ok(())
}

/// Receives a response with status 200, whose body has at most `longest` bytes.
async fn receive(stream: &mut (impl AsyncBufReadExt + Unpin), longest: usize) -> Result<Vec<u8>> {
    for _ in 0..INTERIM {
        let Head { status, line, length, chunked } = head(stream).await?;
        match status {
            200 => return Ok(body(stream, length, chunked, longest).await?),
            // RFC 9110 section 15.2: the response follows.
            100..200 => {}
            _ => return Err(Failure::Status(status, line)),
        }
    }
    Err(io::Error::other("the server sends interim responses only").into())
}

/// The part of a response before the body.
struct Head {
    status: u16,
    /// The line with the status.
    line: String,
    /// The length of the body; `None` if it ends with the connection.
    length: Option<usize>,
    chunked: bool,
}

async fn head(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Head> {
    let first = line(stream).await?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("{first:?} is not a response of HTTP")))?;
    let mut head = Head { status, line: first, length: None, chunked: false };
    for _ in 0..LINES {
        let line = line(stream).await?;
        if line.is_empty() {
            return Ok(head);
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = value.trim().parse().ok(),
            "transfer-encoding" => head.chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    Err(io::Error::other("the head of the response is too long"))
}

async fn body(
    stream: &mut (impl AsyncBufReadExt + Unpin),
    length: Option<usize>,
    chunked: bool,
    longest: usize,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if chunked {
        loop {
            let size = line(stream).await?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                return Ok(body);
            }
            more(stream, &mut body, size, longest).await?;
            line(stream).await?;
        }
    }
    match length {
        Some(length) => more(stream, &mut body, length, longest).await?,
        None => {
            stream.take(longest as u64 + 1).read_to_end(&mut body).await?;
        }
    }
    if body.len() > longest { Err(too_long()) } else { Ok(body) }
}

fn too_long() -> io::Error {
    io::Error::other("the response is too long")
}

async fn more(
    stream: &mut (impl AsyncBufReadExt + Unpin),
    body: &mut Vec<u8>,
    count: usize,
    longest: usize,
) -> io::Result<()> {
    if count > longest - body.len() {
        return Err(too_long());
    }
    let got = stream.take(count as u64).read_to_end(body).await?;
    if got < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Returns the next line without its end.
async fn line(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    stream.take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(response: &str) -> Result<String> {
        let (own, mut theirs) = tokio::io::duplex(64 * 1024);
        theirs.write_all(response.as_bytes()).await?;
        drop(theirs);
        let second = Duration::from_secs(1);
        let (authorization, document) = (None, None);
        let request =
            Post { path: "/", authorization, message: b"m", document, step: second, response: second, longest: 1000 };
        post(own, request).await.map(|body| String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn bodies_of_all_forms_are_received() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (rest, body) in [
            ("Content-Length: 3\r\n\r\nabcdef", "abc"),
            ("transfer-encoding: Chunked\r\n\r\n2\r\nab\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "ab0123456789"),
            ("Connection: close\r\n\r\nall of it", "all of it"),
        ] {
            assert_eq!(received(&format!("{ok}{rest}")).await.expect(rest), body);
        }
        let long = format!("\r\n{}", "x".repeat(1001));
        for rest in [
            "Content-Length: 3\r\n\r\nab",
            "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n",
            "Content-Length: 1001\r\n\r\n",
            &long,
            "X: y\r\n",
            "",
        ] {
            received(&format!("{ok}{rest}")).await.expect_err(rest);
        }
    }

    #[tokio::test]
    async fn interim_responses_are_skipped_and_other_statuses_reported() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        let rest = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(received(&format!("{interim}{interim}{rest}")).await.expect("it follows"), "ok");
        received(&interim.repeat(20)).await.expect_err("there is no other");
        for status in [301, 401, 413, 426, 503] {
            let line = format!("HTTP/1.1 {status} Reason");
            let failure = received(&format!("{line}\r\n\r\n")).await.expect_err("it is not a response");
            assert!(matches!(&failure, Failure::Status(it, text) if (*it, text) == (status, &line)), "{failure:?}");
        }
        let failure = received("SSH-2.0-OpenSSH\r\n").await.expect_err("it is another protocol");
        assert!(matches!(failure, Failure::Connection(_)), "{failure:?}");
    }
}

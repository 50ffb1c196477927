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
/// The maximum number of bytes of a response.
const LONGEST_RESPONSE: usize = 16 << 20;
/// How many bytes of the document are sent at once.
const CHUNK: u64 = 256 * 1024;

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
}

/// Sends a request and returns the body of the response.
pub(super) async fn post(stream: impl AsyncRead + AsyncWrite + Unpin, post: Post<'_>) -> io::Result<Vec<u8>> {
    let mut stream = BufReader::new(stream);
    let sent = send(stream.get_mut(), &post).await;
    // A server that refuses a job may close the connection before it has read it, and has answered then.
    let patience = if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
        Duration::ZERO
    } else {
        post.response
    };
    let received = timeout(patience, receive(&mut stream)).await;
    let received = received.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    match (sent, received) {
        (_, Ok(body)) => Ok(body),
        // It is the answer.
        (_, Err(error)) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Other) => Err(error),
        (Err(error), _) | (Ok(()), Err(error)) => Err(error),
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), post: &Post<'_>) -> io::Result<()> {
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
    let (mut offset, mut buffer) = (0, vec![0; CHUNK.min(size) as usize]);
    while offset < size {
        let wanted = CHUNK.min(size - offset) as usize;
        buffer.truncate(wanted);
        let (read, count) = read_into(&spool.node, &spool.op, offset, buffer, 0).await;
        let count = count.map_err(|errno| io::Error::other(format!("the spool file cannot be read: {errno:?}")))?;
        if count == 0 {
            return Err(io::Error::other("the spool file was truncated by another program"));
        }
        write(stream, &read[..count]).await?;
        offset += count as u64;
        buffer = read;
    }
    Ok(())
}

/// Receives a response with status 200.
async fn receive(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Vec<u8>> {
    let status = line(stream).await?;
    let code = status.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut chunked) = (None, false);
    for count in 0.. {
        let line = line(stream).await?;
        if line.is_empty() {
            break;
        }
        if count == LINES {
            return Err(io::Error::other("the head of the response is too long"));
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<usize>().ok(),
            "transfer-encoding" => chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    match &*code {
        "200" => {}
        "401" | "403" => return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("HTTP status {code}"))),
        _ => return Err(io::Error::other(format!("{status:?} instead of a response of IPP"))),
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let size = line(stream).await?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                return Ok(body);
            }
            more(stream, &mut body, size).await?;
            line(stream).await?;
        }
    }
    match length {
        Some(length) => more(stream, &mut body, length).await?,
        None => {
            stream.take(LONGEST_RESPONSE as u64 + 1).read_to_end(&mut body).await?;
        }
    }
    if body.len() > LONGEST_RESPONSE { Err(too_long()) } else { Ok(body) }
}

fn too_long() -> io::Error {
    io::Error::other("the response is too long")
}

async fn more(stream: &mut (impl AsyncBufReadExt + Unpin), body: &mut Vec<u8>, count: usize) -> io::Result<()> {
    if count > LONGEST_RESPONSE - body.len() {
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

    async fn received(response: &str) -> io::Result<String> {
        let (own, mut theirs) = tokio::io::duplex(64 * 1024);
        theirs.write_all(response.as_bytes()).await?;
        drop(theirs);
        let second = Duration::from_secs(1);
        let request =
            Post { path: "/", authorization: None, message: b"m", document: None, step: second, response: second };
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
        for rest in ["Content-Length: 3\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", "X: y\r\n", ""] {
            received(&format!("{ok}{rest}")).await.expect_err(rest);
        }
        let denied = received("HTTP/1.1 401 Unauthorized\r\n\r\n").await.expect_err("it is refused");
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
    }
}

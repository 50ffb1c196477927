//! A minimal HTTP/1.1 client (RFC 9112): GET, PUT and DELETE on one persistent connection. It supports only bodies with
//! Content-Length: no chunks, ranges, redirects or TLS.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::stream::Pump;

/// Maximum length of a response's head.
const HEAD: usize = 16 << 10;

/// An HTTP connection.
pub(super) struct Http {
    socket: TcpStream,
}

/// The head of a response.
#[derive(PartialEq, Debug)]
struct Head {
    status: u16,
    length: u64,
}

impl Http {
    /// Connects to a server on this host.
    pub(super) async fn connect(port: u16) -> Result<Http> {
        let socket =
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.context("cannot connect to the HTTP server")?;
        socket.set_nodelay(true)?;
        Ok(Http { socket })
    }

    /// Creates or replaces a file.
    pub(super) async fn put(&mut self, name: &str, pump: &mut Pump) -> Result<()> {
        self.ask("PUT", name, Some(pump.size)).await?;
        pump.send(&mut self.socket).await?;
        self.succeeds("PUT").await
    }

    /// Reads a file and checks it.
    pub(super) async fn get(&mut self, name: &str, pump: &mut Pump) -> Result<()> {
        self.ask("GET", name, None).await?;
        let (head, body) = self.answer().await?;
        ensure!(head.status == 200, "GET failed with status {}", head.status);
        ensure!(head.length == pump.size, "GET returned {} bytes, expected {}", head.length, pump.size);
        ensure!(body.len() as u64 <= head.length, "GET returned more than its Content-Length");
        pump.take(0, &body)?;
        pump.receive(&mut self.socket, body.len() as u64..head.length).await
    }

    /// Deletes a file.
    pub(super) async fn delete(&mut self, name: &str) -> Result<()> {
        self.ask("DELETE", name, None).await?;
        self.succeeds("DELETE").await
    }

    async fn ask(&mut self, method: &str, name: &str, length: Option<u64>) -> Result<()> {
        let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
        let head = format!("{method} /{name} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n");
        Ok(self.socket.write_all(head.as_bytes()).await?)
    }

    async fn succeeds(&mut self, method: &str) -> Result<()> {
        let (head, body) = self.answer().await?;
        ensure!((200..300).contains(&head.status), "{method} failed with status {}", head.status);
        ensure!(body.len() as u64 == head.length, "the response to {method} has an unexpected body");
        Ok(())
    }

    /// Reads the head of a response. Also returns the part of the body that arrived with it.
    async fn answer(&mut self) -> Result<(Head, Vec<u8>)> {
        let mut data = Vec::new();
        loop {
            if let Some(end) = data.windows(4).position(|four| four == b"\r\n\r\n") {
                let body = data.split_off(end + 4);
                return Ok((parse(&data[..end])?, body));
            }
            ensure!(data.len() < HEAD, "the head of a response is longer than {HEAD} bytes");
            let length = self.socket.read_buf(&mut data).await?;
            ensure!(length > 0, "the server closed the connection instead of answering");
        }
    }
}

fn parse(head: &[u8]) -> Result<Head> {
    let head = std::str::from_utf8(head).context("the head of a response is not UTF-8")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).and_then(|rest| rest.get(..3));
    let status = status.and_then(|digits| digits.parse().ok()).context("a response does not begin with HTTP/1.1")?;
    let length =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = match length {
        Some((_, value)) => value.trim().parse().with_context(|| format!("invalid Content-Length '{value}'"))?,
        None => 0,
    };
    Ok(Head { status, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_heads_are_parsed() {
        let check = |text: &str, expected: Option<(u16, u64)>| {
            let found = parse(text.as_bytes()).ok().map(|head| (head.status, head.length));
            assert_eq!(found, expected, "{text}");
        };
        check("HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 17", Some((200, 17)));
        check("HTTP/1.1 204 No Content", Some((204, 0)));
        check("HTTP/1.1 200 OK\r\nContent-Length: many", None);
        check("HTTP/1.1 2", None);
        check("220 FTP", None);
        check("", None);
    }
}

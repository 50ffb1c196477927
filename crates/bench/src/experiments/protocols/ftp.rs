//! A minimal FTP client (RFC 959): one anonymous session, binary, passive, with one data connection per file, as the
//! protocol requires.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::stream::Pump;

/// Maximum length of a line in a reply.
const LINE: u64 = 4096;

/// An FTP session.
pub(super) struct Ftp {
    control: BufReader<TcpStream>,
}

impl Ftp {
    /// Connects to a server on this host and logs on.
    pub(super) async fn connect(port: u16) -> Result<Ftp> {
        let socket =
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.context("cannot connect to the FTP server")?;
        socket.set_nodelay(true)?;
        let mut ftp = Ftp { control: BufReader::new(socket) };
        ftp.answer("the greeting", 220).await?;
        ftp.ask("USER anonymous").await?;
        let (code, text) = ftp.reply().await?;
        match code {
            230 => {}
            331 => ftp.call("PASS frevo@localhost", 230).await.map(|_| ())?,
            _ => bail!("USER failed: {text}"),
        }
        ftp.call("TYPE I", 200).await?;
        Ok(ftp)
    }

    /// Creates or replaces a file.
    pub(super) async fn put(&mut self, name: &str, pump: &mut Pump) -> Result<()> {
        let mut data = self.begin(&format!("STOR {name}")).await?;
        pump.send(&mut data).await?;
        data.shutdown().await?;
        self.answer("STOR", 226).await.map(|_| ())
    }

    /// Reads a file and checks it.
    pub(super) async fn get(&mut self, name: &str, pump: &mut Pump) -> Result<()> {
        let mut data = self.begin(&format!("RETR {name}")).await?;
        pump.receive(&mut data, 0..pump.size).await?;
        ensure!(data.read(&mut [0]).await? == 0, "the file is longer than {} bytes", pump.size);
        self.answer("RETR", 226).await.map(|_| ())
    }

    /// Deletes a file.
    pub(super) async fn delete(&mut self, name: &str) -> Result<()> {
        self.call(&format!("DELE {name}"), 250).await.map(|_| ())
    }

    /// Opens a data connection on which the server executes `command`.
    async fn begin(&mut self, command: &str) -> Result<TcpStream> {
        let address = passive(&self.call("PASV", 227).await?)?;
        let data =
            TcpStream::connect(address).await.with_context(|| format!("cannot open a data connection to {address}"))?;
        self.call(command, 150).await?;
        Ok(data)
    }

    async fn call(&mut self, command: &str, expected: u16) -> Result<String> {
        self.ask(command).await?;
        self.answer(command, expected).await
    }

    async fn ask(&mut self, command: &str) -> Result<()> {
        Ok(self.control.get_mut().write_all(format!("{command}\r\n").as_bytes()).await?)
    }

    async fn answer(&mut self, what: &str, expected: u16) -> Result<String> {
        let (code, text) = self.reply().await?;
        ensure!(code == expected, "{what} failed: {text}");
        Ok(text)
    }

    /// Reads a reply of one line, or the last line of several.
    async fn reply(&mut self) -> Result<(u16, String)> {
        loop {
            let mut line = String::new();
            let length = (&mut self.control).take(LINE).read_line(&mut line).await?;
            ensure!(length > 0, "the server closed the session");
            let line = line.trim_end();
            // `123-text` begins a reply of several lines, which `123 text` ends.
            if let Some((code, text)) = line.split_once(' ')
                && let (3, Ok(code)) = (code.len(), code.parse())
            {
                return Ok((code, format!("{code} {text}")));
            }
        }
    }
}

/// Parses the address in `227 Entering Passive Mode (h1,h2,h3,h4,p1,p2)`.
fn passive(text: &str) -> Result<SocketAddrV4> {
    let numbers = text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(numbers, _)| numbers);
    let numbers: Vec<u8> = numbers.unwrap_or_default().split(',').filter_map(|it| it.trim().parse().ok()).collect();
    match numbers[..] {
        [a, b, c, d, high, low] => Ok(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]))),
        _ => bail!("the reply to PASV has no address: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_data_connections_are_parsed() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(passive(text).ok().map(|address| address.to_string()).as_deref(), expected, "{text}");
        };
        check("227 Entering Passive Mode (127,0,0,1,164,139).", Some("127.0.0.1:42123"));
        check("227 Entering Passive Mode (127,0,0,1,300,1).", None);
        check("227 Entering Passive Mode", None);
        check("227 (1,2", None);
    }
}

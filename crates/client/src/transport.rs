//! Frames on TCP ([MS-SMB2] 2.1).

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest frame that is taken from a server, bytes.
const LONGEST: usize = 9 * 1024 * 1024;

/// Sends one message.
pub(crate) async fn send(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(4 + message.len());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(message);
    stream.write_all(&frame).await
}

/// Receives one message.
pub(crate) async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await?;
    let length = (u32::from_be_bytes(header) & 0x00ff_ffff) as usize;
    if header[0] != 0 || length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no SMB frame"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

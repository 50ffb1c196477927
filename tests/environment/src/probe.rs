//! Checks whether a server answers, with a connection, a NEGOTIATE request ([MS-SMB2] 2.2.3), and any SMB 2 reply.
//!
//! A connection alone is not sufficient, because the kernel accepts it for a hanging process too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An SMB 2 reply.
    Replied,
    /// The port is not open.
    Refused,
    /// The server accepts the connection, but does not reply, or not with SMB 2.
    Silent,
}

/// Probes once, with the time limit `patience`.
pub fn ask(address: SocketAddr, patience: Duration) -> Answer {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, patience) else { return Answer::Refused };
    let mut reply = [0u8; 8];
    let talk = stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.write_all(&negotiate()))
        .and_then(|()| stream.read_exact(&mut reply));
    match talk {
        Ok(()) if reply[4..] == *b"\xfeSMB" => Answer::Replied,
        _ => Answer::Silent,
    }
}

/// Probes until the server replies, for at most `patience`. Returns the last result.
pub fn wait(address: SocketAddr, patience: Duration) -> Answer {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let answer = ask(address, left.max(Duration::from_millis(200)));
        if answer == Answer::Replied || left.is_zero() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns a NEGOTIATE request for dialects 2.0.2 and 2.1 in a direct TCP frame.
fn negotiate() -> Vec<u8> {
    let mut message = Vec::new();
    message.extend_from_slice(b"\xfeSMB\x40\x00");
    message.resize(64, 0);
    message[14] = 1; // one credit asked for
    message.extend_from_slice(&[36, 0, 2, 0, 1, 0]); // StructureSize, DialectCount, SecurityMode
    message.resize(64 + 36, 0);
    message[64 + 12..64 + 28].fill(0x5a); // ClientGuid
    message.extend_from_slice(&[0x02, 0x02, 0x10, 0x02]);
    let mut frame = u32::try_from(message.len()).expect("the length fits 32 bits").to_be_bytes().to_vec();
    frame.extend(message);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_listener_refuses() {
        let port = crate::ReservedPort::any().unwrap();
        let address = (std::net::Ipv4Addr::LOCALHOST, port.number()).into();
        assert_eq!(ask(address, Duration::from_secs(5)), Answer::Refused);
    }

    #[test]
    fn a_listener_that_never_reads_is_silent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(ask(listener.local_addr().unwrap(), Duration::from_millis(50)), Answer::Silent);
    }

    #[test]
    fn the_request_is_a_complete_negotiate() {
        let frame = negotiate();
        assert_eq!(frame.len(), 4 + 64 + 36 + 4);
        assert_eq!(frame[..4], [0, 0, 0, 104]);
    }
}

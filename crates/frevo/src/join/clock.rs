//! Clock difference between this machine and a domain controller. An SMB server reports its time in NEGOTIATE
//! ([MS-SMB2] 2.2.4).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use proto::bytes::Writer;
use proto::dtyp::FileTime;
use proto::smb2::header::{Command, Header};
use proto::smb2::negotiate::{Capabilities, Dialect, NegotiateRequest, NegotiateResponse, SecurityMode};

/// Time limit for each step of the exchange.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of an answer to NEGOTIATE, in bytes.
const LONGEST: u32 = 0x1_0000;

/// Queries the controller's time in seconds since 1970-01-01 UTC.
pub(super) fn of(controller: SocketAddr) -> Result<i64, String> {
    let say = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&controller, PATIENCE).map_err(say)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(say)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(say)?;
    let message = request();
    let length = u32::try_from(message.len()).unwrap_or(0).to_be_bytes();
    stream.write_all(&[&length[..], &message].concat()).map_err(say)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(say)?;
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        return Err("the answer is not an SMB message".into());
    }
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).map_err(say)?;
    let response = NegotiateResponse::decode(&answer).map_err(|wrong| format!("NEGOTIATE: {wrong}"))?;
    Ok(FileTime(response.system_time).to_unix().0)
}

fn request() -> Vec<u8> {
    let mut message = Vec::new();
    let mut out = Writer::new(&mut message);
    Header::request(Command::NEGOTIATE, 0).encode(&mut out);
    let negotiate = NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities(0),
        client_guid: [0; 16],
        dialects: vec![Dialect::SMB_2_1, Dialect::SMB_3_0],
        negotiate_context_list: Vec::new(),
    };
    negotiate.encode(&mut out);
    message
}

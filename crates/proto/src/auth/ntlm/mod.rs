//! NTLM ([MS-NLMP]): both sides of an NTLMv2 logon, without I/O, clock or random number generation. A server can permit
//! NTLMv1 responses, too.
//!
//! Deliberately not implemented: LM responses, which are refused, and connectionless mode.

pub mod acceptor;
pub mod av_pair;
pub mod change;
mod digest;
pub mod initiator;
pub mod message;
mod oem;
mod response;
mod sealing;
pub mod secret;
mod session;
mod uppercase;
mod v1;

pub use acceptor::{Acceptor, Claim, InvalidToken, LogonFailure, PassThrough, TargetNames};
pub use initiator::{Credentials, Initiator, Random};
pub use response::nt_hash;
pub use sealing::Sealing;
pub use session::{Sender, Session, SessionKey};

/// The maximum length of a decoded NTLM message, in bytes: the capacity of an SMB2 security buffer.
pub const MAX_MESSAGE: usize = 0xFFFF;

crate::flags::flags! {
    /// `NegotiateFlags` ([MS-NLMP] 2.2.2.5).
    pub struct NegotiateFlags(u32) {
        /// A: strings are Unicode.
        NEGOTIATE_UNICODE = 0x0000_0001;
        /// B: strings are in the OEM character set, unless A is set as well.
        NEGOTIATE_OEM = 0x0000_0002;
        /// C: the challenge must carry a target name.
        REQUEST_TARGET = 0x0000_0004;
        /// D: keys for message signatures.
        NEGOTIATE_SIGN = 0x0000_0010;
        /// E: keys for message confidentiality.
        NEGOTIATE_SEAL = 0x0000_0020;
        /// G: a LAN Manager session key.
        NEGOTIATE_LM_KEY = 0x0000_0080;
        /// H: NTLM itself.
        NEGOTIATE_NTLM = 0x0000_0200;
        /// J: the connection should be anonymous.
        ANONYMOUS = 0x0000_0800;
        /// K: a negotiate message carries the client's domain.
        NEGOTIATE_OEM_DOMAIN_SUPPLIED = 0x0000_1000;
        /// L: a negotiate message carries the client's workstation name.
        NEGOTIATE_OEM_WORKSTATION_SUPPLIED = 0x0000_2000;
        /// M: always a session key, so that there can be a MIC.
        NEGOTIATE_ALWAYS_SIGN = 0x0000_8000;
        /// N: the target name is a domain.
        TARGET_TYPE_DOMAIN = 0x0001_0000;
        /// O: the target name is a server.
        TARGET_TYPE_SERVER = 0x0002_0000;
        /// P: extended session security.
        NEGOTIATE_EXTENDED_SESSIONSECURITY = 0x0008_0000;
        /// Q: an identify level token.
        NEGOTIATE_IDENTIFY = 0x0010_0000;
        /// R: the LMOWF as session key.
        REQUEST_NON_NT_SESSION_KEY = 0x0040_0000;
        /// S: the challenge carries target information.
        NEGOTIATE_TARGET_INFO = 0x0080_0000;
        /// T: messages carry a `Version`.
        NEGOTIATE_VERSION = 0x0200_0000;
        /// U: 128-bit session keys.
        NEGOTIATE_128 = 0x2000_0000;
        /// V: the client chooses the session key.
        NEGOTIATE_KEY_EXCH = 0x4000_0000;
        /// W: 56-bit encryption.
        NEGOTIATE_56 = 0x8000_0000;
    }
}

impl NegotiateFlags {
    /// Returns whether the client sends a session key that it chose ([MS-NLMP] 3.2.5.1.2).
    fn exchanges_key(self) -> bool {
        self.contains(Self::NEGOTIATE_KEY_EXCH) && self.intersects(Self::NEGOTIATE_SIGN | Self::NEGOTIATE_SEAL)
    }
}

#[cfg(test)]
mod tests;

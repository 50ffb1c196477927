//! Remote procedure calls over named pipes: the connection-oriented PDUs of DCE 1.1 as [MS-RPCE] uses them, NDR, and
//! the calls of the services that a file server offers.
//!
//! NDR 2.0 is supported, in the byte order of the client; responses are little-endian.
//! The only RPC-level authentication is NTLM
//! (`auth`), because usually the underlying SMB session has authenticated the caller. Multiple contexts and fragments
//! are supported; the caller reassembles calls that arrive in several fragments.

pub mod auth;
pub mod enumeration;
pub mod lsarpc;
pub mod ndr;
pub mod pdu;
pub mod samr;
pub mod spoolss;
pub mod srvsvc;
pub mod svcctl;
pub mod winreg;
pub mod wkssvc;

//! Remote procedure calls over named pipes: the connection-oriented PDUs of DCE 1.1 as [MS-RPCE] uses them, NDR, and the
//! calls of the services that a file server offers.
//!
//! Little-endian NDR 2.0 only, which every client speaks. Authentication on the RPC level is NTLM's alone
//! (`auth`): mostly the SMB session below has authenticated the caller. Multiple contexts and fragments are understood;
//! calls that arrive in several fragments are put together by the caller.

pub mod auth;
pub mod lsarpc;
pub mod ndr;
pub mod pdu;
pub mod samr;
pub mod srvsvc;

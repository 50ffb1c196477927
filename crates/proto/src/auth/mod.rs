//! What proves who the client is, as tokens inside SESSION_SETUP: SPNEGO ([`spnego`]) around NTLM ([`ntlm`]),
//! and what a server reads itself of Kerberos ([`kerberos`], [`pac`]), whose tokens are the host library's business.
//!
//! All are state and bytes alone: challenges, session keys and the time are arguments, and the account that a name
//! means is looked up by the caller between two steps.

mod der;
pub mod kerberos;
pub mod ntlm;
pub mod pac;
pub mod spnego;

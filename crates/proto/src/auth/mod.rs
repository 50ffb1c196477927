//! The authentication tokens in SESSION_SETUP: SPNEGO ([`spnego`]) around NTLM ([`ntlm`]), and the parts of Kerberos
//! that a server reads itself ([`kerberos`], [`pac`]). The host's library handles the Kerberos tokens.
//!
//! All of it works on state and bytes alone: challenges, session keys and the time are arguments, and the caller looks
//! up user accounts between two steps.

mod der;
pub mod kerberos;
pub mod ntlm;
pub mod pac;
pub mod spnego;

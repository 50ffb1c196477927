//! What proves who the client is, as tokens inside SESSION_SETUP: SPNEGO ([`spnego`]) around NTLM ([`ntlm`]).
//!
//! Both are state and bytes alone: challenges, session keys and the time are arguments, and the account that a name
//! means is looked up by the caller between two steps.

mod der;
pub mod ntlm;
pub mod spnego;

//! Measures any SMB server the way five published studies did, and draws what it found.
//!
//! It knows a server only by its address: never by the code of `server`, so it is fair to all of them.

pub mod record;
pub mod table;
pub mod units;

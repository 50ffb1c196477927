//! Measures any SMB server the way five published studies did, and draws what it found.
//!
//! It knows a server only by its address: never by the code of `server`, so it is fair to all of them.

pub mod child;
pub mod cli;
pub mod crew;
pub mod experiments;
pub mod ground;
pub mod listing;
pub mod load;
pub mod machine;
pub mod method;
pub mod netbench;
pub mod opener;
pub mod probe;
pub mod random;
pub mod record;
pub mod report;
pub mod requests;
pub mod summary;
pub mod table;
pub mod target;
pub mod units;

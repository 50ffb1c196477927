//! Measures any SMB server with the methods of five published studies. The crate `report` draws the results.
//!
//! The crate knows a server only by its address and does not use the code of `server`, so it treats all servers alike.
//!
//! [`cli`] is the command line and [`experiments`] has the experiments. [`method`] is the procedure that all of them
//! follow, [`load`], [`requests`] and [`files`] make the load, [`probe`] measures the server's processes, and
//! [`summary`] turns rounds into tables and figures. A [`directory`] of this machine can be measured like a server.

pub mod child;
pub mod cli;
pub mod crew;
pub mod directory;
pub mod experiments;
pub mod files;
pub mod ground;
pub mod listing;
pub mod load;
pub mod machine;
pub mod method;
pub mod netbench;
pub mod opener;
pub mod probe;
pub mod random;
pub mod requests;
mod stop_signals;
pub mod summary;
pub mod target;

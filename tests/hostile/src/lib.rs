//! Attacks on a running server. Each is performed by one client, or by several connections of one user and address.
//! Meanwhile another client works with its own connection, share and user. Its response times, and the resources that
//! the server allocates and releases, are measured and compared with limits.
//!
//! `cargo xtask hostile` runs them. Everything stays on loopback and ends by itself.

mod attack;
mod attacks;
pub mod guess;
mod marks;
mod outcome;
mod run;
mod scene;
mod victim;
mod vitals;
mod wire;

pub use marks::Marks;
pub use outcome::Outcome;
pub use run::{Options, list, run};
pub use scene::Effort;
pub use victim::VictimResult;
pub use vitals::Vitals;

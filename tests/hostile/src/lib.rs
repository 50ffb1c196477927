//! Attacks on a running server. Each is performed by one client, or by several connections of one account and address,
//! while another client works on a connection, a share and an account of its own: what that one waits for, and what the
//! server takes and gives back, is measured and held to marks.
//!
//! `cargo xtask hostile` runs them. Everything stays on loopback and ends by itself.

mod attack;
mod attacks;
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
pub use victim::Suffering;
pub use vitals::Vitals;

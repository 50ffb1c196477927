//! The service manager: notifications to it (sd_notify(3)) and the sockets that it passes (sd_listen_fds(3)).
//!
//! Both are protocols of environment variables, for which no library is needed. Without these variables, nothing here
//! has an effect.

mod notify;
mod sockets;
#[cfg(test)]
mod tests;
mod watchdog;

pub use self::notify::Notifier;
pub use self::sockets::inherited;
pub use self::watchdog::{report, watchdog_time};

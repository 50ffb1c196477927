//! The version of the program.

/// What `frevo --version` shows after the program's name: version, commit and features of the build.
pub const LONG: &str = if cfg!(feature = "torture") {
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("FREVO_COMMIT"), ", features: torture)")
} else {
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("FREVO_COMMIT"), ", features: none)")
};

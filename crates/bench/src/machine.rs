//! The machine that the tool runs on.

use std::path::Path;

use crate::record::Machine;

/// This machine.
pub fn describe() -> Machine {
    Machine { cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32), ..Machine::default() }
}

/// The file system of a directory.
pub fn file_system_of(_path: &Path) -> Option<String> {
    None
}

/// What a server's program says of its version.
pub fn version_of(_pid: u32) -> Option<String> {
    None
}

/// Processor time of this process so far, seconds.
pub fn client_cpu() -> f64 {
    0.0
}

/// Now.
pub fn rfc3339_now() -> String {
    String::new()
}

/// Memory of the machine in use, without caches.
pub fn memory_in_use() -> anyhow::Result<u64> {
    Ok(0)
}

/// Memory of this process.
pub fn own_memory() -> anyhow::Result<u64> {
    Ok(0)
}

//! A whole file system in memory.

//! The file operations of an experiment. They are performed over SMB, or by system calls in a directory of this
//! machine. An experiment knows only these traits, so it does the same work in both cases.
//!
//! Paths are relative to the working directory of the experiment, with `/` between names.

use std::future::Future;
use std::ops::Range;

use anyhow::Result;
use client::Window;

pub mod local;
pub mod smb;

/// A connection that performs one file operation after another.
pub trait Files: Send + 'static {
    /// Whether an operation blocks its thread. Then each connection needs a thread of its own.
    const BLOCKS: bool;

    /// Creates a new file and writes `content` to it.
    fn create(&mut self, path: &str, content: &[u8]) -> impl Future<Output = Result<()>> + Send;

    /// Lists a directory with the attributes of its entries. `each` gets every entry except `.` and `..`.
    fn list(
        &mut self,
        path: &str,
        each: impl FnMut(&Entry<'_>) -> Result<()> + Send,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Returns the size of a file, from its attributes.
    fn size(&mut self, path: &str) -> impl Future<Output = Result<u64>> + Send;

    /// Reads up to `length` bytes from the start of a file and passes them to `take`, which is called once.
    fn read(
        &mut self,
        path: &str,
        length: u32,
        take: impl FnMut(&[u8]) + Send,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Renames a file to a name that does not exist.
    fn rename(&mut self, from: &str, to: &str) -> impl Future<Output = Result<()>> + Send;

    /// Deletes a file.
    fn delete(&mut self, path: &str) -> impl Future<Output = Result<()>> + Send;

    /// Creates a new directory.
    fn make_directory(&mut self, path: &str) -> impl Future<Output = Result<()>> + Send;

    /// Deletes an empty directory.
    fn remove_directory(&mut self, path: &str) -> impl Future<Output = Result<()>> + Send;
}

/// An entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The size of a file, in bytes.
    pub size: u64,
}

/// A file that is open for reading and writing in pieces.
pub trait OpenFile: Send + 'static {
    /// Whether an operation blocks its thread. Then each file needs a thread of its own.
    const BLOCKS: bool;

    /// Writes `range`. `fill` fills the buffer for the piece at an offset.
    fn write(
        &mut self,
        range: Range<u64>,
        window: Window,
        fill: impl FnMut(u64, &mut [u8]) + Send,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Reads `range` and passes each piece with its offset to `take`. A file that ends before is an error.
    fn read(
        &mut self,
        range: Range<u64>,
        window: Window,
        take: impl FnMut(u64, &[u8]) + Send,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Flushes the written data to the disk.
    fn flush(&mut self) -> impl Future<Output = Result<()>> + Send;
}

//! A pipe that contains data.

use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::vfs::{Errno, Pipe, Result};

/// The number of bytes that a pipe holds at least.
pub(super) const PIPE: usize = 4096;

/// A pipe with data that was written to it.
pub(crate) struct Filled {
    reader: PipeReader,
    length: usize,
}

impl Filled {
    /// Returns a pipe that contains `data`, at most [`PIPE`] bytes.
    pub(crate) fn with(data: &[u8]) -> Result<Box<dyn Pipe>> {
        assert!(data.len() <= PIPE, "the pipe holds the whole data");
        let (reader, mut writer) = std::io::pipe().map_err(|_| Errno::MFILE)?;
        writer.write_all(data).map_err(|_| Errno::IO)?;
        Ok(Box::new(Filled { reader, length: data.len() }))
    }
}

impl Read for Filled {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(space)
    }
}

impl AsFd for Filled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Pipe for Filled {
    fn length(&self) -> usize {
        self.length
    }

    fn spliced(&mut self, _: usize) {}
}

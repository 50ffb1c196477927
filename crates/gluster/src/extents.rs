//! The size of a file, its allocated space, and its ranges with data.

use std::sync::atomic::Ordering;

use server::vfs::{DataRange, Errno, Extent, Op, Result};

use crate::attributes::Source;
use crate::identity;
use crate::node::Open;

/// Maximum number of data ranges that are returned at once.
const MOST_RANGES: usize = 65_536;

impl Open {
    pub(crate) fn set_extent_now(&self, op: &Op, extent: Extent) -> Result<()> {
        let file = self.file_for(|access| access.write)?;
        identity::assume(op)?;
        self.written.store(true, Ordering::Relaxed);
        let signed = |value: u64| i64::try_from(value).map_err(|_| Errno::FBIG);
        match extent {
            Extent::Size(size) => file.set_size(signed(size)?),
            // Bricks refuse to reserve nothing.
            Extent::Reserve(0) => Ok(()),
            Extent::Reserve(length) => match file.reserve(signed(length)? as usize) {
                Err(Errno::NOSYS) => Err(Errno::OPNOTSUPP),
                done => done,
            },
            Extent::Zero { offset, length } => {
                let now = self.stat(Source { object: &self.object, file: Some(&file) })?;
                identity::assume(op)?;
                let end = offset.saturating_add(length).min(now.size);
                let Some(length) = end.checked_sub(offset).filter(|length| *length > 0) else { return Ok(()) };
                match file.punch(signed(offset)?, length as usize) {
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.zero(signed(offset)?, signed(length)?),
                    done => done,
                }
            }
        }
    }

    pub(crate) fn data_ranges_now(&self, op: &Op, offset: u64, length: u64) -> Result<Vec<DataRange>> {
        let file = self.file_for(|access| access.read || access.write)?;
        identity::assume(op)?;
        let end = i64::try_from(offset.saturating_add(length)).unwrap_or(i64::MAX);
        let mut at = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
        let mut ranges = Vec::new();
        while at < end && ranges.len() < MOST_RANGES {
            let start = match file.seek(at, false) {
                Ok(start) if start < end => start,
                Ok(_) | Err(Errno::NXIO) => break,
                Err(error) => return Err(error),
            };
            let stop = file.seek(start, true)?.min(end);
            ranges.push(DataRange { offset: start as u64, length: (stop - start) as u64 });
            at = stop;
        }
        Ok(ranges)
    }
}

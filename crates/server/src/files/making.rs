//! Files that are being made: on disk perhaps, and not yet in the table. A directory that is renamed meanwhile takes
//! their names along, too.

use std::sync::Arc;

use super::{OpenName, Table};

/// The name of a file that is being made; over when this is dropped, after it was entered.
pub struct Making<'a> {
    table: &'a Table,
    name: Arc<OpenName>,
}

impl Table {
    /// A file is about to be made by this name.
    pub fn make(&self, name: &Arc<OpenName>) -> Making<'_> {
        self.making.lock().push(name.clone());
        Making { table: self, name: name.clone() }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut making = self.table.making.lock();
        if let Some(place) = making.iter().position(|other| Arc::ptr_eq(other, &self.name)) {
            making.swap_remove(place);
        }
    }
}

//! Files that are being created. They may exist on disk but are not in the table yet. The rename of a parent directory
//! changes their names, too.

use std::sync::Arc;

use super::{OpenName, Table};

/// The name of a file that is being created. Dropped after the file was entered into the table.
pub struct Making<'a> {
    table: &'a Table,
    name: Arc<OpenName>,
}

impl Table {
    /// Registers the name of a file that is about to be created.
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

//! Files that are being created. They may exist on disk but are not in the table yet. The rename of a parent directory
//! changes their names, too.

use std::sync::Arc;

use super::{OpenName, Table};

/// The name of a file that is being created. Dropped after the file was entered into the table.
pub struct PendingCreate<'a> {
    table: &'a Table,
    name: Arc<OpenName>,
}

impl Table {
    /// Registers the name of a file that is about to be created.
    pub fn begin_create(&self, name: &Arc<OpenName>) -> PendingCreate<'_> {
        self.pending_creates.lock().push(name.clone());
        PendingCreate { table: self, name: name.clone() }
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        let mut pending = self.table.pending_creates.lock();
        if let Some(index) = pending.iter().position(|other| Arc::ptr_eq(other, &self.name)) {
            pending.swap_remove(index);
        }
    }
}

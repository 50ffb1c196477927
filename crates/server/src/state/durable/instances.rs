//! Opens of application instances. An application that fails over to another machine opens its files there with the
//! same AppInstanceId, and the opens of the lost machine are closed ([MS-SMB2] 3.3.5.9.13).

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use proto::dtyp::Guid;
use proto::smb2::create_context::AppInstanceVersion;

use crate::state::open::Open;

/// The application instance that an open belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instance {
    /// `Open.AppInstanceId`.
    pub id: [u8; 16],
    /// `Open.ApplicationInstanceVersionHigh` and `...Low`.
    pub version: Option<AppInstanceVersion>,
    /// `Open.ClientGuid`.
    pub client: Guid,
}

type Opens = Vec<(Instance, Weak<Open>)>;

/// The opens of each instance.
#[derive(Default)]
pub(crate) struct Instances(Mutex<HashMap<[u8; 16], Opens>>);

impl Instances {
    /// Adds a new or reclaimed open.
    pub(crate) fn add(&self, open: &Arc<Open>) {
        if let Some(instance) = open.file().and_then(|file| file.durability.instance()) {
            let mut instances = self.0.lock();
            let opens = instances.entry(instance.id).or_default();
            opens.retain(|(_, other)| other.strong_count() > 0);
            opens.push((*instance, Arc::downgrade(open)));
            drop(instances);
            // It may have been closed before it was added, so it was not removed then.
            if open.file().is_some_and(|file| file.closed.load(Ordering::Acquire)) {
                self.remove(instance, open);
            }
        }
    }

    /// Removes a closed open.
    pub(crate) fn remove(&self, instance: &Instance, open: &Arc<Open>) {
        let mut instances = self.0.lock();
        if let Some(opens) = instances.get_mut(&instance.id) {
            opens.retain(|(_, other)| other.strong_count() > 0 && other.as_ptr() != Arc::as_ptr(open));
            if opens.is_empty() {
                instances.remove(&instance.id);
            }
        }
    }

    /// Returns the opens of the instance by clients other than `client`.
    pub(crate) fn elsewhere(&self, id: [u8; 16], client: Guid) -> Vec<(Instance, Arc<Open>)> {
        let instances = self.0.lock();
        let opens = instances.get(&id).into_iter().flatten().filter(|(instance, _)| instance.client != client);
        opens.filter_map(|(instance, open)| Some((*instance, open.upgrade()?))).collect()
    }
}

//! A private directory of the remote file system.

use std::sync::Arc;

use super::Client;
use super::known::Changed;
use super::node::RemoteNode;
use crate::answer::Answer;
use crate::vfs::faulty::Operation;
use crate::vfs::{Opened, Private, Result};

/// A private directory.
pub(super) struct RemotePrivate {
    inner: Arc<dyn Private>,
    client: Arc<Client>,
}

impl RemotePrivate {
    pub(super) fn new(inner: Arc<dyn Private>, client: Arc<Client>) -> RemotePrivate {
        RemotePrivate { inner, client }
    }
}

/// Returns `opened` with a handle that uses `client`.
fn remote(client: &Arc<Client>, (node, metadata): Opened) -> Opened {
    (Arc::new(RemoteNode::new(node, metadata.id, client)), metadata)
}

impl Private for RemotePrivate {
    fn find(&self, name: &str) -> Answer<Result<Option<Opened>>> {
        let (inner, client, name) = (Arc::clone(&self.inner), Arc::clone(&self.client), name.to_owned());
        let found = self.client.call(Operation::Lookup, move || inner.find(&name));
        found.map(move |found| found.map(|found| found.map(|opened| remote(&client, opened))))
    }

    fn create(&self, name: &str) -> Answer<Result<Opened>> {
        let (inner, client, name) = (Arc::clone(&self.inner), Arc::clone(&self.client), name.to_owned());
        let created = self.client.call(Operation::Create, move || inner.create(&name));
        created.map(move |created| {
            client.changed(Changed::Names);
            created.map(|opened| remote(&client, opened))
        })
    }

    fn remove(&self, name: &str) -> Answer<Result<()>> {
        let (inner, client, name) = (Arc::clone(&self.inner), Arc::clone(&self.client), name.to_owned());
        self.client.call(Operation::Unlink, move || inner.remove(&name)).map(move |removed| {
            client.changed(Changed::Names);
            removed
        })
    }
}

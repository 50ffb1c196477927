//! The record of changes by administrators.

use super::Server;
use crate::audit::{Administration, Event};

impl Server {
    /// Records a change that an administrator with this name, at this address, has made or tried to make.
    pub fn record_administration(
        &self,
        [user, address, operation]: [String; 3],
        arguments: Vec<String>,
        failure: Option<String>,
    ) {
        let policy = self.policy();
        let Some(destinations) = self.audit() else { return };
        let (time, utc_offset) = (self.environment.now(), policy.utc_offset);
        let event = Administration { time, operation, user, address, failure, arguments, utc_offset };
        destinations.queue(&policy.administration_audit).push(Event::Administration(Box::new(event)));
    }
}

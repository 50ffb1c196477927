//! The queues of the print system as shares (`[printers]`).

use std::sync::Arc;

use super::Server;
use crate::policy::{Policy, Share};
use crate::printing::QueueInfo;

impl Server {
    /// Returns the share that `[printers]` makes of the queue called `name`. A print system that does not answer has no
    /// queues, so that other shares are found.
    pub(crate) async fn printer_share(&self, policy: &Policy, name: &str) -> Option<Arc<Share>> {
        let printers = policy.printers.as_ref()?;
        let queues = self.queues().await;
        let queue = queues.iter().find(|queue| queue.name.eq_ignore_ascii_case(name))?;
        printers.share_of(&queue.name).await.unwrap_or_else(|why| {
            tracing::error!(name, why = why.0, "cannot look up the users of a print share");
            None
        })
    }

    /// Returns the queues as shares for a list, if `load printers` lists them. As in Samba, `browseable = no` hides the
    /// section itself, not the printers.
    pub(crate) async fn listed_printers(&self, policy: &Policy) -> Vec<Arc<Share>> {
        let listed = policy.printers.as_ref().filter(|it| policy.load_printers && it.section().available);
        let Some(printers) = listed else { return Vec::new() };
        let section = printers.section();
        let share = |queue: &QueueInfo| {
            let comment = if queue.description.is_empty() { &section.comment } else { &queue.description };
            Arc::new(Share { name: queue.name.clone(), comment: comment.clone(), ..section.clone() })
        };
        let queues = self.queues().await;
        queues.iter().filter(|queue| policy.share(&queue.name).is_none()).map(share).collect()
    }

    async fn queues(&self) -> Arc<[QueueInfo]> {
        let Some(system) = self.print_system() else { return Arc::default() };
        system.queues().await.unwrap_or_else(|error| {
            tracing::warn!("the printers of the host are not known: {error}");
            Arc::default()
        })
    }
}

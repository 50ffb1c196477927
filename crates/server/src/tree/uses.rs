//! The numbers of tree connects to shares, and whether any follows symbolic links out of its share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The number of tree connects to each share that has any, by its name.
#[derive(Default)]
pub(crate) struct ShareUses(Mutex<HashMap<String, usize>>, WideLinks);

/// Held by each tree connect with `wide links`, and by what outlives it, such as a durable open. A reload that switches
/// the setting off does not change it for them.
#[derive(Clone, Default)]
pub(crate) struct WideLinks(Arc<()>);

/// One tree connect in these numbers. It is subtracted when this is dropped.
pub(crate) struct ShareUse {
    uses: Arc<ShareUses>,
    share: String,
}

impl ShareUses {
    /// Counts a tree connect.
    pub(crate) fn add(self: &Arc<Self>, share: &str) -> ShareUse {
        *self.0.lock().entry(share.to_owned()).or_default() += 1;
        ShareUse { uses: self.clone(), share: share.to_owned() }
    }

    /// Notes that links out of a share may be followed, as long as the value exists.
    pub(crate) fn wide_links(&self) -> WideLinks {
        self.1.clone()
    }

    /// Whether links out of any share may be followed. To be called after the configuration was loaded that permits
    /// none.
    pub(crate) fn has_wide_links(&self) -> bool {
        Arc::strong_count(&self.1.0) > 1
    }

    /// Returns the number of tree connects to a share.
    pub(crate) fn of(&self, share: &str) -> usize {
        self.0.lock().get(share).copied().unwrap_or(0)
    }
}

impl Drop for ShareUse {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock();
        if let Some(count) = uses.get_mut(&self.share) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.share);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_connect_is_counted_while_it_exists() {
        let uses = Arc::new(ShareUses::default());
        let (one, other) = (uses.add("a"), uses.add("a"));
        assert_eq!((uses.of("a"), uses.of("b")), (2, 0));
        drop(one);
        assert_eq!(uses.of("a"), 1);
        drop(other);
        assert!(uses.0.lock().is_empty());
    }

    #[test]
    fn wide_links_are_known_while_they_may_be_followed() {
        let uses = ShareUses::default();
        let (tree, open) = (uses.wide_links(), uses.wide_links().clone());
        drop(tree);
        assert!(uses.has_wide_links());
        drop(open);
        assert!(!uses.has_wide_links());
    }
}

//! Watched directories as a tree of names. Finding a path costs a lookup for each component, and the rename of a
//! directory moves everything below it in one step.

use std::collections::HashMap;
use std::sync::Arc;

use super::Watch;

/// A node for a directory that is watched, or is on the path to one.
#[derive(Default)]
pub(super) struct DirectoryNode {
    below: HashMap<Box<[u8]>, DirectoryNode>,
    pub(super) watches: Vec<Arc<Watch>>,
}

/// Splits an absolute path into its components.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|component| !component.is_empty())
}

impl DirectoryNode {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.watches.is_empty() && self.below.is_empty()
    }

    /// Returns the child called `name`.
    pub(super) fn below(&self, name: &[u8]) -> Option<&DirectoryNode> {
        #[cfg(test)]
        crate::files::tree::steps::count();
        self.below.get(name)
    }

    /// Returns the node of a path.
    pub(super) fn get(&self, path: &[u8]) -> Option<&DirectoryNode> {
        components(path).try_fold(self, |place, name| place.below(name))
    }

    /// Returns the node of a path, creating it if it is missing.
    pub(super) fn make(&mut self, path: &[u8]) -> &mut DirectoryNode {
        components(path).fold(self, |place, name| place.below.entry(name.into()).or_default())
    }

    /// Removes the node of a path and everything below.
    pub(super) fn take(&mut self, path: &[u8]) -> Option<DirectoryNode> {
        self.get(path)?;
        let names: Vec<_> = components(path).collect();
        // Ancestors without other children are removed as well, from `cut` on.
        let (mut cut, mut place) = (0, &*self);
        for (index, name) in names.iter().enumerate() {
            if !place.watches.is_empty() || place.below.len() > 1 {
                cut = index;
            }
            place = place.below(name)?;
        }
        let above = names[..cut].iter().try_fold(&mut *self, |place, name| place.below.get_mut(*name))?;
        let Some(first) = names.get(cut) else { return Some(std::mem::take(self)) };
        let mut taken = above.below.remove(*first)?;
        for name in &names[cut + 1..] {
            let next = taken.below.remove(*name)?;
            taken = next;
        }
        Some(taken)
    }

    /// Merges everything at `other` into this node.
    pub(super) fn add(&mut self, mut other: DirectoryNode) {
        self.watches.append(&mut other.watches);
        if self.below.is_empty() {
            std::mem::swap(&mut self.below, &mut other.below);
            return;
        }
        // Names in both are rare, because a directory whose name another one gets no longer exists.
        for (name, place) in std::mem::take(&mut other.below) {
            self.below.entry(name).or_default().add(place);
        }
    }

    /// Removes a watch from wherever it is, most likely `path`. Returns whether it was found.
    pub(super) fn remove(&mut self, path: &[u8], watch: &Arc<Watch>) -> bool {
        if self.get(path).is_some_and(|place| place.has(watch)) {
            self.remove_at(path, watch);
            return true;
        }
        let elsewhere = self.find(watch);
        if let Some(path) = &elsewhere {
            self.remove_at(path, watch);
        }
        elsewhere.is_some()
    }

    fn has(&self, watch: &Arc<Watch>) -> bool {
        self.watches.iter().any(|other| Arc::ptr_eq(other, watch))
    }

    fn remove_at(&mut self, path: &[u8], watch: &Arc<Watch>) {
        let place = self.make(path);
        place.watches.retain(|other| !Arc::ptr_eq(other, watch));
        if place.watches.is_empty() && place.below.is_empty() {
            drop(self.take(path));
        }
    }

    /// Returns the path of a watch.
    fn find(&self, watch: &Arc<Watch>) -> Option<Vec<u8>> {
        let mut left = vec![(Vec::new(), self)];
        while let Some((path, place)) = left.pop() {
            if place.has(watch) {
                return Some(path);
            }
            left.extend(place.below.iter().map(|(name, place)| ([&path[..], b"/", name].concat(), place)));
        }
        None
    }
}

impl Drop for DirectoryNode {
    /// Iterative, because a path can have thousands of components.
    fn drop(&mut self) {
        let mut left: Vec<_> = std::mem::take(&mut self.below).into_values().collect();
        while let Some(mut place) = left.pop() {
            left.extend(std::mem::take(&mut place.below).into_values());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(place: &DirectoryNode) -> Vec<String> {
        let mut names: Vec<_> = place.below.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn removing_an_entry_removes_unused_parents() {
        let mut root = DirectoryNode::default();
        for path in ["/a/b/c", "/a/d", "/e/f/g"] {
            root.make(path.as_bytes());
        }
        let taken = root.take(b"/e/f/g").expect("it was created");
        assert!(taken.is_empty());
        assert_eq!(names(&root), ["a"]);
        let taken = root.take(b"/a/b").expect("it was created");
        assert_eq!((names(&taken), names(root.get(b"/a").expect("it remains"))), (vec!["c".into()], vec!["d".into()]));
        root.make(b"/x/b").add(taken);
        assert!(root.get(b"/x/b/c").is_some() && root.take(b"/a/b").is_none());
        let mut other = DirectoryNode::default();
        other.make(b"/d/deep");
        root.make(b"/a").add(other);
        assert!(root.get(b"/a/d/deep").is_some());
        assert!(!root.take(b"").expect("the root always exists").is_empty() && root.is_empty());
    }

    #[test]
    fn a_path_of_thousands_of_components() {
        let mut root = DirectoryNode::default();
        root.make("/a".repeat(100_000).as_bytes());
        assert!(root.get("/a".repeat(100_000).as_bytes()).is_some());
    }
}

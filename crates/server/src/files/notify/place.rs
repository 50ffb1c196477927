//! Watched directories as a tree of names: the way from the root to a path costs a look-up for each component, and a
//! directory that is renamed takes along what is below it in one step.

use std::collections::HashMap;
use std::sync::Arc;

use super::Watch;

/// A directory that is watched, or leads to one that is.
#[derive(Default)]
pub(super) struct Place {
    below: HashMap<Box<[u8]>, Place>,
    pub(super) watches: Vec<Arc<Watch>>,
}

/// The components of an absolute path.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|component| !component.is_empty())
}

impl Place {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.watches.is_empty() && self.below.is_empty()
    }

    /// What is called `name` in this directory.
    pub(super) fn below(&self, name: &[u8]) -> Option<&Place> {
        #[cfg(test)]
        crate::files::tree::steps::count();
        self.below.get(name)
    }

    /// The place of a path.
    pub(super) fn get(&self, path: &[u8]) -> Option<&Place> {
        components(path).try_fold(self, |place, name| place.below(name))
    }

    /// The place of a path, made where it is missing.
    pub(super) fn make(&mut self, path: &[u8]) -> &mut Place {
        components(path).fold(self, |place, name| place.below.entry(name.into()).or_default())
    }

    /// Takes out the place of a path, with all below it.
    pub(super) fn take(&mut self, path: &[u8]) -> Option<Place> {
        self.get(path)?;
        let names: Vec<_> = components(path).collect();
        // What leads only there goes along: it begins at `cut`.
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

    /// Everything at `other` is here, too.
    pub(super) fn add(&mut self, mut other: Place) {
        self.watches.append(&mut other.watches);
        if self.below.is_empty() {
            std::mem::swap(&mut self.below, &mut other.below);
            return;
        }
        // Names that both have are rare: a directory whose name another one gets is gone.
        for (name, place) in std::mem::take(&mut other.below) {
            self.below.entry(name).or_default().add(place);
        }
    }

    /// Takes a watch out, wherever it is; most likely that is `path`. Answers whether it was there.
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

    /// The path of a watch.
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

impl Drop for Place {
    /// One after another: a path has thousands of components.
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

    fn names(place: &Place) -> Vec<String> {
        let mut names: Vec<_> = place.below.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_taken_out_leaves_nothing_that_leads_only_there() {
        let mut root = Place::default();
        for path in ["/a/b/c", "/a/d", "/e/f/g"] {
            root.make(path.as_bytes());
        }
        let taken = root.take(b"/e/f/g").expect("it was made");
        assert!(taken.is_empty());
        assert_eq!(names(&root), ["a"]);
        let taken = root.take(b"/a/b").expect("it was made");
        assert_eq!((names(&taken), names(root.get(b"/a").expect("it stays"))), (vec!["c".into()], vec!["d".into()]));
        root.make(b"/x/b").add(taken);
        assert!(root.get(b"/x/b/c").is_some() && root.take(b"/a/b").is_none());
        let mut other = Place::default();
        other.make(b"/d/deep");
        root.make(b"/a").add(other);
        assert!(root.get(b"/a/d/deep").is_some());
        assert!(!root.take(b"").expect("the root is always there").is_empty() && root.is_empty());
    }

    #[test]
    fn a_path_of_thousands_of_components() {
        let mut root = Place::default();
        root.make("/a".repeat(100_000).as_bytes());
        assert!(root.get("/a".repeat(100_000).as_bytes()).is_some());
    }
}

//! The files and directories on the share while a load runs, by name only, as far as the requests depend on them. Names
//! are compared without case.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::netbench::load::TextId;

/// A file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub(super) path: TextId,
    pub(super) directory: bool,
}

/// The files and directories, by folded path without the trailing backslash. The root always exists and is not
/// included.
#[derive(Default, Debug)]
pub(super) struct Tree(BTreeMap<String, Node>);

/// Returns the form in which names are compared.
fn fold(path: &str) -> String {
    path.trim_end_matches('\\').to_lowercase()
}

/// Returns the parent of a path, with the leading backslash. The root is an empty string.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('\\').map_or("", |(parent, _)| parent)
}

impl Tree {
    pub(super) fn add(&mut self, path: &str, node: Node) {
        self.0.entry(fold(path)).or_insert(node);
    }

    pub(super) fn has(&self, path: &str) -> bool {
        let path = fold(path);
        path.is_empty() || self.0.contains_key(&path)
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.0.remove(&fold(path));
    }

    /// Returns a directory and everything in it, parents first.
    pub(super) fn below(&self, path: &str) -> Vec<(String, Node)> {
        let path = fold(path);
        let inner = format!("{path}\\");
        let after = (Bound::Included(inner.clone()), Bound::Unbounded);
        let first = self.0.get_key_value(&path).into_iter();
        let rest = self.0.range::<String, _>(after).take_while(|(key, _)| key.starts_with(&inner));
        first.chain(rest).map(|(key, node)| (key.clone(), *node)).collect()
    }

    /// Returns all nodes, parents first.
    pub(super) fn all(&self) -> Vec<Node> {
        self.0.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ignore_case_and_siblings_are_not_in_the_subtree() {
        let mut tree = Tree::default();
        for (id, path) in (0..).zip([r"\A", r"\a\b", r"\A\b\c", r"\a!", r"\ab"]) {
            tree.add(path, Node { path: TextId(id), directory: id < 2 });
        }
        let ids = |path: &str| tree.below(path).iter().map(|(_, node)| node.path.0).collect::<Vec<_>>();
        assert_eq!(ids(r"\a"), [0, 1, 2]);
        assert_eq!(ids(r"\a\B\"), [1, 2]);
        assert_eq!(ids(r"\zzz"), [0; 0]);
        assert!(tree.has(r"\AB") && tree.has("") && tree.has("\\") && !tree.has(r"\b"));
        assert_eq!((parent(r"\a\b"), parent(r"\a")), (r"\a", ""));
    }
}

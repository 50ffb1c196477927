//! A balanced tree (AVL) whose nodes summarize their subtrees, so that a query over all elements visits a logarithmic
//! number of nodes.
//!
//! Keys come from clients, so the balance must not depend on randomness that a client can predict.

use std::cmp::Ordering;

/// The value stored for a key.
pub(crate) trait Element<K> {
    /// A summary of several elements.
    type Summary: Clone + std::fmt::Debug;

    /// The summary of no elements.
    const NOTHING: Self::Summary;

    /// Returns the summary of this element, stored under `key`.
    fn summary(&self, key: &K) -> Self::Summary;

    /// Returns the summary of two sequences of elements, where the keys of `second` come after those of `first`.
    fn join(first: &Self::Summary, second: &Self::Summary) -> Self::Summary;
}

type Link<K, V> = Option<Box<Node<K, V>>>;

#[derive(Clone, Debug)]
struct Node<K, V: Element<K>> {
    key: K,
    value: V,
    height: u8,
    summary: V::Summary,
    left: Link<K, V>,
    right: Link<K, V>,
}

/// A map from keys to elements.
#[derive(Clone, Debug)]
pub(crate) struct Tree<K, V: Element<K>> {
    root: Link<K, V>,
}

impl<K, V: Element<K>> Default for Tree<K, V> {
    fn default() -> Self {
        Tree { root: None }
    }
}

/// Counts visited nodes, for tests.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    /// Returns the number of nodes that `work` visits.
    pub(crate) fn of<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = STEPS.get();
        let done = work();
        (done, STEPS.get() - before)
    }
}

fn visit() {
    #[cfg(test)]
    steps::count();
}

impl<K: Ord, V: Element<K>> Tree<K, V> {
    /// Returns the element at `key`.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let mut link = &self.root;
        while let Some(node) = link {
            visit();
            link = match key.cmp(&node.key) {
                Ordering::Less => &node.left,
                Ordering::Equal => return Some(&node.value),
                Ordering::Greater => &node.right,
            };
        }
        None
    }

    /// Replaces the element at `key` by the result of `change`, where `None` is no element.
    pub(crate) fn change(&mut self, key: K, change: impl FnOnce(Option<V>) -> Option<V>) {
        self.root = altered(self.root.take(), key, change);
    }

    /// Returns the summary of the elements up to and including `key`.
    pub(crate) fn until(&self, key: &K) -> V::Summary {
        let (mut link, mut sum) = (&self.root, V::NOTHING);
        while let Some(node) = link {
            visit();
            link = if node.key <= *key {
                sum = V::join(&V::join(&sum, &summary(&node.left)), &node.value.summary(&node.key));
                &node.right
            } else {
                &node.left
            };
        }
        sum
    }

    /// Returns the first element from `start` on for which `holds(before, of)` is true. `before` summarizes all
    /// elements before it, and `of` the element itself. For several elements, `holds` must return whether it holds for
    /// one of them.
    pub(crate) fn first(&self, start: Option<&K>, holds: impl Fn(&V::Summary, &V::Summary) -> bool) -> Option<&K> {
        self.root.as_deref().and_then(|root| root.first(&V::NOTHING, start, &holds))
    }

    /// Returns all elements in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut stack = Vec::new();
        let mut next = self.root.as_deref();
        std::iter::from_fn(move || {
            while let Some(node) = next {
                stack.push(node);
                next = node.left.as_deref();
            }
            let node = stack.pop()?;
            next = node.right.as_deref();
            Some((&node.key, &node.value))
        })
    }
}

fn summary<K, V: Element<K>>(link: &Link<K, V>) -> V::Summary {
    link.as_ref().map_or(V::NOTHING, |node| node.summary.clone())
}

fn height<K, V: Element<K>>(link: &Link<K, V>) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

/// Returns the tree `link` with the element at `key` changed.
fn altered<K: Ord, V: Element<K>>(link: Link<K, V>, key: K, change: impl FnOnce(Option<V>) -> Option<V>) -> Link<K, V> {
    visit();
    let Some(mut node) = link else {
        let value = change(None)?;
        let summary = value.summary(&key);
        return Some(Box::new(Node { key, value, height: 1, summary, left: None, right: None }));
    };
    match key.cmp(&node.key) {
        Ordering::Less => node.left = altered(node.left.take(), key, change),
        Ordering::Greater => node.right = altered(node.right.take(), key, change),
        Ordering::Equal => {
            let Node { key, value, left, right, .. } = *node;
            match change(Some(value)) {
                Some(value) => node = Box::new(Node { key, value, height: 0, summary: V::NOTHING, left, right }),
                None => {
                    return merged(left, right);
                }
            }
        }
    }
    Some(balanced(node))
}

/// Joins `left` and `right`, whose heights differ by at most one.
fn merged<K: Ord, V: Element<K>>(left: Link<K, V>, right: Link<K, V>) -> Link<K, V> {
    let Some(right) = right else { return left };
    let (mut first, rest) = without_first(right);
    (first.left, first.right) = (left, rest);
    Some(balanced(first))
}

/// Returns the first element, and the tree without it.
fn without_first<K: Ord, V: Element<K>>(mut node: Box<Node<K, V>>) -> (Box<Node<K, V>>, Link<K, V>) {
    visit();
    match node.left.take() {
        None => {
            let rest = node.right.take();
            (node, rest)
        }
        Some(left) => {
            let (first, rest) = without_first(left);
            node.left = rest;
            (first, Some(balanced(node)))
        }
    }
}

/// Updates height and summary of the node, and rotates it if it is unbalanced.
fn balanced<K: Ord, V: Element<K>>(mut node: Box<Node<K, V>>) -> Box<Node<K, V>> {
    let (left, right) = (height(&node.left), height(&node.right));
    if left > right + 1 {
        node.left = node.left.take().map(|child| if child.leans_right() { turned_left(child) } else { child });
        return turned_right(node);
    }
    if right > left + 1 {
        node.right = node.right.take().map(|child| if child.leans_left() { turned_right(child) } else { child });
        return turned_left(node);
    }
    node.renew();
    node
}

fn turned_left<K: Ord, V: Element<K>>(mut node: Box<Node<K, V>>) -> Box<Node<K, V>> {
    let Some(mut top) = node.right.take() else { return node };
    node.right = top.left.take();
    node.renew();
    top.left = Some(node);
    top.renew();
    top
}

fn turned_right<K: Ord, V: Element<K>>(mut node: Box<Node<K, V>>) -> Box<Node<K, V>> {
    let Some(mut top) = node.left.take() else { return node };
    node.left = top.right.take();
    node.renew();
    top.right = Some(node);
    top.renew();
    top
}

impl<K: Ord, V: Element<K>> Node<K, V> {
    fn leans_right(&self) -> bool {
        height(&self.right) > height(&self.left)
    }

    fn leans_left(&self) -> bool {
        height(&self.left) > height(&self.right)
    }

    fn renew(&mut self) {
        self.height = height(&self.left).max(height(&self.right)) + 1;
        let until = V::join(&summary(&self.left), &self.value.summary(&self.key));
        self.summary = V::join(&until, &summary(&self.right));
    }

    fn first(
        &self,
        before: &V::Summary,
        start: Option<&K>,
        holds: &impl Fn(&V::Summary, &V::Summary) -> bool,
    ) -> Option<&K> {
        visit();
        if !holds(before, &self.summary) {
            return None;
        }
        let until = V::join(before, &summary(&self.left));
        if start.is_none_or(|start| self.key >= *start) {
            let left = self.left.as_deref().and_then(|left| left.first(before, start, holds));
            if left.is_some() {
                return left;
            }
            if holds(&until, &self.value.summary(&self.key)) {
                return Some(&self.key);
            }
        }
        let until = V::join(&until, &self.value.summary(&self.key));
        self.right.as_deref().and_then(|right| right.first(&until, start, holds))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Element<u16> for i64 {
        /// The sum, and the smallest sum of a prefix.
        type Summary = (i64, i64);
        const NOTHING: (i64, i64) = (0, i64::MAX / 2);

        fn summary(&self, _: &u16) -> (i64, i64) {
            (*self, *self)
        }

        fn join(first: &(i64, i64), second: &(i64, i64)) -> (i64, i64) {
            (first.0 + second.0, first.1.min(first.0 + second.1))
        }
    }

    /// Checks heights, order and summaries; returns the height.
    fn check(link: &Link<u16, i64>) -> u8 {
        let Some(node) = link else { return 0 };
        let (left, right) = (check(&node.left), check(&node.right));
        assert!(left.abs_diff(right) <= 1, "{left} and {right}");
        assert_eq!(node.height, left.max(right) + 1);
        assert!(node.left.as_ref().is_none_or(|left| left.key < node.key));
        assert!(node.right.as_ref().is_none_or(|right| right.key > node.key));
        let sum: i64 = node.value + summary(&node.left).0 + summary(&node.right).0;
        assert_eq!(node.summary.0, sum);
        node.height
    }

    proptest! {
        #[test]
        fn a_tree_is_a_map(changes in proptest::collection::vec((0..60u16, -4..5i64), 0..200), start in 0..60u16) {
            let (mut tree, mut model) = (Tree::<u16, i64>::default(), BTreeMap::new());
            for (key, value) in changes {
                let value = Some(value).filter(|value| *value != 0);
                tree.change(key, |before| {
                    assert_eq!(before, model.get(&key).copied());
                    value
                });
                match value {
                    Some(value) => model.insert(key, value),
                    None => model.remove(&key),
                };
                check(&tree.root);
                prop_assert_eq!(tree.iter().count(), model.len());
                prop_assert_eq!(tree.get(&key).copied(), value);
            }
            prop_assert!(tree.iter().eq(model.iter()));
            let until = |key: u16| model.range(..=key).map(|(_, value)| value).sum::<i64>();
            prop_assert_eq!(tree.until(&start).0, until(start));
            let below = tree.first(Some(&start), |before, of| before.0 + of.1 < 0);
            prop_assert_eq!(below, model.range(start..).map(|(key, _)| key).find(|key| until(**key) < 0));
        }
    }

    #[test]
    fn elements_in_order_do_not_unbalance_it() {
        let mut tree = Tree::<u16, i64>::default();
        for key in 0..16_384 {
            tree.change(key, |_| Some(1));
        }
        assert!(check(&tree.root) <= 20);
        let (found, steps) = steps::of(|| tree.first(Some(&9_000), |before, of| before.0 + of.0 > 10_000).copied());
        assert_eq!(found, Some(10_000));
        assert!(steps < 80, "{steps}");
        for key in 0..16_000 {
            tree.change(key, |_| None);
        }
        assert!(check(&tree.root) <= 12);
    }
}

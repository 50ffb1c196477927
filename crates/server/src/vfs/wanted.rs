//! The extended attributes that a share needs with the metadata of each file.

use std::sync::Arc;

/// The names of the extended attributes that come with the metadata of a file. A share states those that it needs when
/// its volume is opened. The volume declares those that it returns ([`Capabilities::attributes`]).
///
/// [`Capabilities::attributes`]: super::Capabilities::attributes
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WantedXattrs(Arc<[Box<str>]>);

impl WantedXattrs {
    /// Returns the first eight of these names.
    pub fn new(names: impl IntoIterator<Item = impl Into<Box<str>>>) -> WantedXattrs {
        WantedXattrs(names.into_iter().take(u8::BITS as usize).map(Into::into).collect())
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// Returns those names for which `is_in` is true, as a set.
    pub fn filter(&self, is_in: impl Fn(&str) -> bool) -> XattrSet {
        let bits = self.iter().enumerate().filter(|(_, name)| is_in(name)).map(|(index, _)| 1 << index);
        XattrSet(bits.fold(0, std::ops::BitOr::bitor))
    }

    /// Returns whether `name` is one of the names, and in `set`.
    pub fn has(&self, name: &str, set: XattrSet) -> bool {
        self.filter(|other| other == name).0 & set.0 != 0
    }
}

/// A subset of the [`WantedXattrs`] of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XattrSet(u8);

impl XattrSet {
    /// The first of the names.
    pub const FIRST: XattrSet = XattrSet(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_belongs_to_the_names_of_its_volume() {
        let wanted = WantedXattrs::new(["user.a", "user.b", "user.c"]);
        let set = wanted.filter(|name| name != "user.b");
        assert_eq!(
            ["user.a", "user.b", "user.c", "user.d"].map(|name| wanted.has(name, set)),
            [true, false, true, false]
        );
        assert!(wanted.has("user.a", XattrSet::FIRST) && !wanted.has("user.b", XattrSet::FIRST));
        assert!(!WantedXattrs::default().has("user.a", XattrSet::FIRST), "a volume without names knows nothing");
        assert_eq!(WantedXattrs::new((0..20).map(|number| number.to_string())).iter().count(), 8);
    }
}

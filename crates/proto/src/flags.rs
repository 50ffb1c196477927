//! Bit sets of the wire: newtypes over the raw bits with named constants, so that unknown bits survive decoding and
//! appear in `Debug` output.

/// Defines bit set types: `flags! { /// doc
/// pub struct Name(u32) { /// doc
/// BIT = 1; } }`.
macro_rules! flags {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident($bits:ty) { $($(#[$flag_doc:meta])* $flag:ident = $value:expr;)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $bits);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: $name = $name($value);)*

            /// No bit set.
            pub const NONE: $name = $name(0);

            /// Returns whether all bits of `other` are set.
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns whether any bit of `other` is set.
            pub const fn intersects(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }

            /// Returns whether no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Returns the union of both sets.
            pub const fn with(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// Returns these bits without those of `other`.
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: $name) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = $name;

            fn bitand(self, other: $name) -> $name {
                $name(self.0 & other.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let named = [$((stringify!($flag), $value as u64)),*];
                $crate::flags::write_names(f, u64::from(self.0), &named)
            }
        }
    )*};
}

pub(crate) use flags;

/// Writes the names of the set bits joined by `|`, using the first name of each bit. Unnamed bits follow in
/// hexadecimal.
pub(crate) fn write_names(f: &mut std::fmt::Formatter<'_>, bits: u64, named: &[(&str, u64)]) -> std::fmt::Result {
    let mut left = bits;
    let mut separator = "";
    for (name, value) in named {
        if *value != 0 && left & value == *value {
            write!(f, "{separator}{name}")?;
            separator = "|";
            left &= !value;
        }
    }
    if left != 0 || separator.is_empty() { write!(f, "{separator}0x{left:x}") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use crate::dtyp::AccessMask;

    #[test]
    fn unknown_bits_are_preserved_and_shown() {
        let mask = AccessMask::FILE_LIST_DIRECTORY | AccessMask(0x1800);
        assert!(mask.contains(AccessMask::FILE_READ_DATA) && !mask.intersects(AccessMask::DELETE));
        assert_eq!(mask.without(AccessMask::FILE_READ_DATA), AccessMask(0x1800));
        for (bits, text) in
            [(0, "0x0"), (0x1_0001, "FILE_READ_DATA|DELETE"), (0x1801, "FILE_READ_DATA|0x1800"), (0x800, "0x800")]
        {
            assert_eq!(format!("{:?}", AccessMask(bits)), text);
        }
    }
}

//! Enumerated wire values: newtypes over a number with named constants, so that unknown values survive decoding and
//! appear in `Debug` output. For bit sets, see [`crate::flags`].

/// Defines types: `values! { /// doc
/// pub struct Name(u16) { /// doc
/// FIRST = 1; } }`.
macro_rules! values {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident($repr:ty) { $($(#[$value_doc:meta])* $value:ident = $number:expr;)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$value_doc])* pub const $value: $name = $name($number);)*
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.0 {
                    $(number if number == $number => f.write_str(stringify!($value)),)*
                    number => write!(f, "{number:#x}"),
                }
            }
        }
    )*};
}

pub(crate) use values;

#[cfg(test)]
mod tests {
    use crate::smb2::header::Command;

    #[test]
    fn known_numbers_show_their_names_and_unknown_ones_are_preserved() {
        for (number, text) in [(0, "NEGOTIATE"), (0x13, "SERVER_TO_CLIENT_NOTIFICATION"), (0x14, "0x14")] {
            assert_eq!(format!("{:?}", Command(number)), text);
        }
    }
}

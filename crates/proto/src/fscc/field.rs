//! Structures of fixed size, whose decoder, encoder and size are generated from a list of fields.

use super::{FileAttributes, ReparseTag};
use crate::bytes::{Reader, Result, Writer};
use crate::dtyp::{AccessMask, FileTime, Guid};

/// A value in a structure of fixed size.
pub(crate) trait Field: Sized {
    fn read(reader: &mut Reader<'_>) -> Result<Self>;
    fn write(&self, out: &mut Writer<'_>);
}

impl Field for u8 {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.u8()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8(*self);
    }
}

impl Field for u16 {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.u16()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u16(*self);
    }
}

impl Field for u32 {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.u32()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(*self);
    }
}

impl Field for u64 {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.u64()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u64(*self);
    }
}

/// A one-byte Boolean: any value except 0 is true ([MS-FSCC] 2.1.8).
impl Field for bool {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(reader.u8()? != 0)
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8(u8::from(*self));
    }
}

impl<const N: usize> Field for [u8; N] {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.array()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(self);
    }
}

/// Implements `Field` for newtypes over a number.
macro_rules! fields {
    ($($name:ident)*) => {$(
        impl $crate::fscc::field::Field for $name {
            fn read(reader: &mut $crate::bytes::Reader<'_>) -> $crate::bytes::Result<Self> {
                $crate::fscc::field::Field::read(reader).map($name)
            }

            fn write(&self, out: &mut $crate::bytes::Writer<'_>) {
                $crate::fscc::field::Field::write(&self.0, out);
            }
        }
    )*};
}

pub(crate) use fields;

fields! { AccessMask FileAttributes FileTime Guid ReparseTag }

/// Defines structures of fixed size: `structures! { Name(size) { field: Type, field: Type [4 reserved], } }`, with a
/// doc comment for each name. Reserved bytes after a field are written as zeros and skipped when read.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident($size:literal) {
        $($(#[$field_doc:meta])* $field:ident: $type:ty $([$reserved:literal reserved])?,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl $name {
                /// The size on the wire, in bytes.
                pub const SIZE: usize = $size;

                /// Decodes the structure and advances the reader past it.
                pub fn decode(reader: &mut $crate::bytes::Reader<'_>) -> $crate::bytes::Result<Self> {
                    $(
                        let $field = <$type as $crate::fscc::field::Field>::read(reader)?;
                        $(reader.skip($reserved)?;)?
                    )*
                    Ok($name { $($field),* })
                }

                /// Appends the structure.
                pub fn encode(&self, out: &mut $crate::bytes::Writer<'_>) {
                    $(
                        $crate::fscc::field::Field::write(&self.$field, out);
                        $(out.zeros($reserved);)?
                    )*
                }
            }

            impl $crate::fscc::field::Field for $name {
                fn read(reader: &mut $crate::bytes::Reader<'_>) -> $crate::bytes::Result<Self> {
                    Self::decode(reader)
                }

                fn write(&self, out: &mut $crate::bytes::Writer<'_>) {
                    self.encode(out);
                }
            }
        )*

        #[cfg(test)]
        mod structure_tests {
            $(
                #[test]
                #[allow(non_snake_case, reason = "the test has the name of the structure")]
                fn $name() {
                    let round_trip = |bytes: &[u8]| {
                        let mut out = Vec::new();
                        let structure = super::$name::decode(&mut $crate::bytes::Reader::new(bytes))?;
                        structure.encode(&mut $crate::bytes::Writer::new(&mut out));
                        assert_eq!(super::$name::decode(&mut $crate::bytes::Reader::new(&out)), Ok(structure));
                        Ok(out.len())
                    };
                    assert_eq!(super::$name::SIZE, $size);
                    assert_eq!(round_trip(&[0xa5; $size]), Ok($size));
                    assert_eq!(round_trip(&[0xa5; $size - 1]), Err($crate::bytes::Malformed::Truncated));
                }
            )*
        }
    };
}

pub(crate) use structures;

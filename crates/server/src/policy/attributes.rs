//! DOS attributes and extended attributes.

/// DOS attributes and extended attributes.
#[derive(Clone, Debug)]
pub struct AttributePolicy {
    /// `store dos attributes`.
    pub store_dos_attributes: bool,
    /// `map archive`: the owner's x bit, for files without stored attributes.
    pub map_archive: bool,
    /// `map system`: the group's x bit.
    pub map_system: bool,
    /// `map hidden`: the x bit of others.
    pub map_hidden: bool,
    /// `map read only` = yes: a file without the owner's w bit has READONLY.
    pub map_read_only: bool,
    /// `delete readonly`: files with READONLY may be deleted.
    pub delete_readonly: bool,
    /// `ea support`.
    pub ea_support: bool,
}

impl Default for AttributePolicy {
    fn default() -> Self {
        AttributePolicy {
            store_dos_attributes: true,
            map_archive: true,
            map_system: false,
            map_hidden: false,
            map_read_only: false,
            delete_readonly: false,
            ea_support: true,
        }
    }
}

//! The permission bits of new files and directories.

/// The permission bits of new files and directories.
#[derive(Clone, Debug)]
pub struct ModePolicy {
    /// `create mask`.
    pub create_mask: u32,
    /// `force create mode`.
    pub force_create_mode: u32,
    /// `directory mask`.
    pub directory_mask: u32,
    /// `force directory mode`.
    pub force_directory_mode: u32,
    /// `inherit permissions`: new directories have the mode of their parent, and new files its `r` and `w` bits,
    /// instead of the masks.
    pub inherit_permissions: bool,
}

impl Default for ModePolicy {
    fn default() -> Self {
        ModePolicy {
            create_mask: 0o744,
            force_create_mode: 0,
            directory_mask: 0o755,
            force_directory_mode: 0,
            inherit_permissions: false,
        }
    }
}

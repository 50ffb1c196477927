//! File names: case, symbolic links, short names, and the names that clients do not see.

/// How names are compared, and the files that they reach.
#[derive(Clone, Debug)]
pub struct NamePolicy {
    /// `case sensitive`: `auto` and `no` both mean case-insensitive, as in Windows.
    pub case_sensitive: bool,
    /// `mangled names`: long names have an 8.3 name.
    pub mangled_names: bool,
    /// `follow symlinks`.
    pub follow_symlinks: bool,
    /// `wide links`.
    pub wide_links: bool,
    /// `hide dot files`.
    pub hide_dot_files: bool,
    /// `hide files`.
    pub hide_files: Vec<String>,
    /// `veto files`.
    pub veto_files: Vec<String>,
    /// `delete veto files`.
    pub delete_veto_files: bool,
    /// `hide unreadable`.
    pub hide_unreadable: bool,
    /// `hide unwriteable files`.
    pub hide_unwriteable_files: bool,
    /// `hide new files timeout`: seconds since the last write until a file is listed; 0 if at once.
    pub hide_new_files_timeout: u32,
    /// `hide special files`.
    pub hide_special_files: bool,
    /// `honor change notify privilege`: recursive watches report only names in directories that their user may list.
    pub honor_change_notify_privilege: bool,
}

impl NamePolicy {
    /// Returns whether a listing depends on the rights of the user.
    pub fn hides_by_access(&self) -> bool {
        self.hide_unreadable || self.hide_unwriteable_files
    }
}

impl Default for NamePolicy {
    fn default() -> Self {
        NamePolicy {
            case_sensitive: false,
            mangled_names: false,
            follow_symlinks: true,
            wide_links: false,
            hide_dot_files: true,
            hide_files: Vec::new(),
            veto_files: Vec::new(),
            delete_veto_files: false,
            hide_unreadable: false,
            hide_unwriteable_files: false,
            hide_new_files_timeout: 0,
            hide_special_files: false,
            honor_change_notify_privilege: true,
        }
    }
}

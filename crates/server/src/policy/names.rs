//! File names: case, symbolic links, short names, characters, and the names that clients do not see.

use crate::name::CharacterMap;

use crate::name::short::is_short;
use crate::name::{Capitals, with_capitals};
use crate::vfs::RelPath;

/// How names are compared, and the files that they reach.
#[derive(Clone, Debug)]
pub struct NamePolicy {
    /// `case sensitive`: `auto` and `no` both mean case-insensitive, as in Windows.
    pub case_sensitive: bool,
    /// `preserve case`: a new file gets its name as the client spells it.
    pub preserve_case: bool,
    /// `short preserve case`: also if the name has the 8.3 form.
    pub short_preserve_case: bool,
    /// `default case`: the case of other new names.
    pub default_case: Capitals,
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
    /// `catia:mappings`: characters that clients see as others.
    pub characters: CharacterMap,
}

impl NamePolicy {
    /// Returns the path of a new file, with its own name as the share spells it. The directories of `path` exist.
    pub fn spelled(&self, path: RelPath) -> RelPath {
        let Some(name) = path.name().map(<[u8]>::to_vec) else { return path };
        if self.preserve_case && (self.short_preserve_case || !is_short(&name)) {
            return path;
        }
        let spelled = path.parent().and_then(|parent| parent.join(&with_capitals(&name, self.default_case)));
        // A name in the other case may be too long for the file system.
        spelled.unwrap_or(path)
    }

    /// Returns whether all names of the share have the default case, so that names in requests are converted to it. As
    /// in Samba, this is how a share can be case-sensitive although its clients are not.
    pub fn has_one_case(&self) -> bool {
        self.case_sensitive && !self.preserve_case && !self.short_preserve_case
    }

    /// Returns the name of a request as the share compares it.
    pub fn asked_name(&self, name: Vec<u8>) -> Vec<u8> {
        if self.has_one_case() { with_capitals(&name, self.default_case) } else { name }
    }

    /// Returns the path of a request as the share compares it.
    pub fn asked(&self, path: RelPath) -> RelPath {
        if !self.has_one_case() {
            return path;
        }
        let mut converted = RelPath::root();
        let is_valid = path.components().all(|name| converted.push(&self.asked_name(name.to_vec())));
        if is_valid { converted } else { path }
    }

    /// Returns whether a listing depends on the rights of the user.
    pub fn hides_by_access(&self) -> bool {
        self.hide_unreadable || self.hide_unwriteable_files
    }
}

impl Default for NamePolicy {
    fn default() -> Self {
        NamePolicy {
            case_sensitive: false,
            preserve_case: true,
            short_preserve_case: true,
            default_case: Capitals::Lower,
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
            characters: CharacterMap::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        let mut path = RelPath::root();
        assert!(text.split('/').all(|name| path.push(name.as_bytes())), "{text}");
        path
    }

    #[test]
    fn new_names_get_the_default_case() {
        let all = NamePolicy { preserve_case: false, ..NamePolicy::default() };
        let upper = NamePolicy { preserve_case: false, default_case: Capitals::Upper, ..NamePolicy::default() };
        let short = NamePolicy { short_preserve_case: false, ..NamePolicy::default() };
        for (names, asked, expected) in [
            (&NamePolicy::default(), "Dir/FOO.TXT", "Dir/FOO.TXT"),
            (&all, "Dir/FooBar", "Dir/foobar"),
            (&all, "SHORT", "short"),
            (&all, "ÄÖÜ", "äöü"),
            (&upper, "Dir/foobar", "Dir/FOOBAR"),
            (&short, "Dir/FOO.TXT", "Dir/foo.txt"),
            (&short, "Foo3.txt", "foo3.txt"),
            (&short, "FOOLONGNAME.TXT", "FOOLONGNAME.TXT"),
        ] {
            assert_eq!(names.spelled(path(asked)), path(expected), "{asked}");
            assert_eq!(names.asked(path(asked)), path(asked));
        }
        assert!(all.spelled(RelPath::root()).is_root());
    }

    #[test]
    fn a_share_may_have_one_case() {
        let names = NamePolicy {
            case_sensitive: true,
            preserve_case: false,
            short_preserve_case: false,
            ..NamePolicy::default()
        };
        assert_eq!(names.asked(path("Dir/FOO")), path("dir/foo"));
        assert!(names.asked(RelPath::root()).is_root());
    }
}

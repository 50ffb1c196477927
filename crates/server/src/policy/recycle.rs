//! `vfs objects = recycle`: deleted files are moved to a directory of the share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::template::Variable;
use super::{Policy, Share, Template};
use crate::name::glob::Globs;
use crate::vfs::RelPath;

/// The parameters of the recycle bin of a share, as in Samba's module recycle.
#[derive(Clone, Debug)]
pub struct Recycle {
    /// `recycle:repository`: the directory to which files are moved, in the share or absolute.
    pub repository: Template,
    /// `recycle:directory_mode`: the permission bits of the repository, or of the first directory of its path.
    pub directory_mode: u32,
    /// `recycle:subdir_mode`: the permission bits of directories below that one.
    pub subdir_mode: u32,
    /// `recycle:keeptree`: the directories of deleted files are recreated in the repository.
    pub keep_tree: bool,
    /// `recycle:versions`: a file whose name is taken in the repository gets another one.
    pub versions: bool,
    /// `recycle:touch`: the time of the last access is set.
    pub touch: bool,
    /// `recycle:touch_mtime`: the times of the last access and of the last write are set.
    pub touch_modified: bool,
    /// `recycle:minsize`: smaller files are deleted.
    pub min_size: u64,
    /// `recycle:maxsize`: larger files are deleted; 0: no limit.
    pub max_size: u64,
    /// `recycle:exclude`: files with these names are deleted.
    pub exclude: Globs,
    /// `recycle:exclude_dir`: files below directories with these names are deleted.
    pub exclude_dir: Globs,
    /// `recycle:noversions`: files with these names replace those of the same name in the repository.
    pub no_versions: Globs,
    /// `frevo:recycle keep`: the time after which the server deletes a file in the repository.
    pub keep: Option<Duration>,
}

/// The parameters by which the repository of a share is found. Old files are deleted only where they still apply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    location: PathBuf,
    path_template: Option<Template>,
    repository: Template,
}

impl Policy {
    /// Returns the recycle bin of the share called `name`, or of the homes if there is none.
    pub(crate) fn recycle_of(&self, name: &str) -> Option<(Origin, &Recycle)> {
        let homes = || self.homes.as_ref().map(|homes| homes.section());
        let share: &Share = self.share(name).map(|share| &**share).or_else(homes)?;
        let recycle = share.recycle.as_deref()?;
        let (location, path_template) = (share.location().into_owned(), share.path_template.clone());
        Some((Origin { location, path_template, repository: recycle.repository.clone() }, recycle))
    }
}

/// The variables that a repository may contain.
pub const VARIABLES: [Variable; 13] = [
    Variable::SESSION_USER,
    Variable::SESSION_GROUP,
    Variable::USER,
    Variable::GROUP,
    Variable::CLIENT_NETBIOS_NAME,
    Variable::CLIENT_HOST,
    Variable::CLIENT_ADDRESS,
    Variable::CLIENT_ADDRESS_PLAIN,
    Variable::SERVER_ADDRESS,
    Variable::SERVER_ADDRESS_PLAIN,
    Variable::PROTOCOL,
    Variable::SHARE,
    Variable::ROOT,
];

impl Recycle {
    /// Returns the repository of a share whose directory is `root`. `None` if `value` does not return a value for each
    /// variable, if a value is not a single component of a path, or if the repository is not below `root`.
    pub fn directory(&self, root: &Path, value: impl Fn(Variable) -> Option<String>) -> Option<RelPath> {
        let root = root.to_str()?;
        let expanded = self.repository.expand(|variable| match variable {
            Variable::ROOT => Some(root.to_owned()),
            _ => value(variable).filter(|value| !value.contains('/') && !matches!(value.as_str(), "" | "." | "..")),
        })?;
        let below = match expanded.starts_with('/') {
            true => Path::new(&expanded).strip_prefix(root).ok()?.to_str()?,
            false => &expanded,
        };
        let mut directory = RelPath::root();
        let mut names = below.split('/').filter(|name| !matches!(*name, "" | "."));
        (names.all(|name| directory.push(name.as_bytes())) && !directory.is_root()).then_some(directory)
    }

    /// Returns whether the file `path` is deleted although its size would permit to move it to `repository`.
    pub fn excludes(&self, repository: &RelPath, path: &RelPath) -> bool {
        let Some((parent, name)) = path.parent().zip(path.name()) else { return true };
        path.is_beneath(repository)
            || self.exclude.matches(name)
            || (!self.exclude_dir.is_empty() && parent.components().any(|name| self.exclude_dir.matches(name)))
    }

    /// Returns whether the size of files matters.
    pub fn limits_size(&self) -> bool {
        self.min_size > 0 || self.max_size > 0
    }

    /// Returns whether a file of `size` bytes is moved.
    pub fn accepts(&self, size: u64) -> bool {
        size >= self.min_size && (self.max_size == 0 || size <= self.max_size)
    }
}

impl Default for Recycle {
    fn default() -> Self {
        Recycle {
            repository: Template::parse(".recycle").expect("it has no variables"),
            directory_mode: 0o700,
            subdir_mode: 0o700,
            keep_tree: false,
            versions: false,
            touch: false,
            touch_modified: false,
            min_size: 0,
            max_size: 0,
            exclude: Globs::default(),
            exclude_dir: Globs::default(),
            no_versions: Globs::default(),
            keep: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).expect("a valid name"))
    }

    #[test]
    fn a_repository_is_below_the_share() {
        let cases = [
            (".recycle", "ann", Some(".recycle")),
            ("./bin//x/", "ann", Some("bin/x")),
            (".recycle/%U", "ann", Some(".recycle/ann")),
            (".recycle/%U", "a/b", None),
            (".recycle/%U", "..", None),
            (".recycle/%U", "", None),
            ("../x", "ann", None),
            ("", "ann", None),
            (".", "ann", None),
            ("%P/bin", "ann", Some("bin")),
            ("/srv/data/bin/%U", "ann", Some("bin/ann")),
            ("/srv/database", "ann", None),
            ("/srv/data", "ann", None),
            ("/elsewhere", "ann", None),
        ];
        for (text, user, expected) in cases {
            let recycle = Recycle { repository: Template::parse(text).expect("known variables"), ..Recycle::default() };
            let directory = recycle.directory(Path::new("/srv/data"), |_| Some(user.to_owned()));
            assert_eq!(directory, expected.map(path), "{text} {user}");
        }
    }

    #[test]
    fn names_and_directories_are_excluded() {
        let recycle = Recycle {
            exclude: Globs::new(["*.tmp", "a?c"], true),
            exclude_dir: Globs::new(["three*", "one/two"], true),
            ..Recycle::default()
        };
        for (name, excluded) in [
            ("x", false),
            ("d/A.TMP", true),
            ("ABC", true),
            ("d/threeY/z/a", true),
            ("d/four/a", false),
            ("one/two/a", false),
            ("three", false),
            (".recycle/x", true),
            (".recycle2/x", false),
            (".recycle", false),
        ] {
            assert_eq!(recycle.excludes(&path(".recycle"), &path(name)), excluded, "{name}");
        }
    }
}

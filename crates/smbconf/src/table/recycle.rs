//! The recycle bin, as in Samba's module recycle.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use server::name::glob::Globs;
use server::policy::Share;
use server::policy::recycle::{Recycle, VARIABLES};

use super::{BOOL, BYTES, LIST, OCTAL, PATH, Parameter, TEXT, share};
use crate::problem::{Code, warning};
use crate::reader::{Reader, ValueReader};
use crate::share::modules;

const DIRECTORY_MODE: Parameter =
    share("recycle:directory_mode", OCTAL, "0700", "Permission bits of the recycle bin when it is created.")
        .read_by_others();

const SUBDIR_MODE: Parameter = share(
    "recycle:subdir_mode",
    OCTAL,
    "0700",
    "Permission bits of directories in the recycle bin; if not set, recycle:directory_mode.",
)
.read_by_others();

const KEEP_TREE: Parameter =
    share("recycle:keeptree", BOOL, "no", "Recreate the directories of deleted files in the recycle bin.")
        .read_by_others();

const VERSIONS: Parameter =
    share("recycle:versions", BOOL, "no", "Keep files of the same name as `Copy #1 of NAME` and so on.")
        .read_by_others();

const TOUCH: Parameter =
    share("recycle:touch", BOOL, "no", "Set the time of the last access of a deleted file.").read_by_others();

const TOUCH_MTIME: Parameter =
    share("recycle:touch_mtime", BOOL, "no", "Set the times of the last access and write of a deleted file.")
        .read_by_others();

const MIN_SIZE: Parameter = share("recycle:minsize", BYTES, "0", "Smaller files are deleted at once.").read_by_others();

const MAX_SIZE: Parameter =
    share("recycle:maxsize", BYTES, "0", "Larger files are deleted at once; 0: no limit.").read_by_others();

const EXCLUDE: Parameter =
    share("recycle:exclude", LIST, "", "Files whose names match one of these patterns are deleted at once.")
        .read_by_others();

const EXCLUDE_DIR: Parameter = share(
    "recycle:exclude_dir",
    LIST,
    "",
    "Files in directories whose names match one of these patterns, or below, are deleted at once.",
)
.read_by_others();

const NO_VERSIONS: Parameter =
    share("recycle:noversions", LIST, "", "Names of files that replace those of the same name in the recycle bin.")
        .read_by_others();

const KEEP: Parameter = share(
    "frevo:recycle keep",
    TEXT,
    "0",
    "Delete a file this long after it was moved to the recycle bin, such as 30d or 12h; 0: never. Not in Samba.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    share("recycle:repository", PATH, ".recycle", "The directory of the share to which deleted files are moved.")
        .reads(read),
    DIRECTORY_MODE,
    SUBDIR_MODE,
    KEEP_TREE,
    VERSIONS,
    TOUCH,
    TOUCH_MTIME,
    MIN_SIZE,
    MAX_SIZE,
    EXCLUDE,
    EXCLUDE_DIR,
    NO_VERSIONS,
    KEEP,
];

fn read(repository: ValueReader<'_>, share: &mut Share) {
    let section = repository.section;
    let directory_mode = section.value(&DIRECTORY_MODE).octal();
    let subdir_mode = section.value(&SUBDIR_MODE);
    let recycle = Recycle {
        repository: repository.template(),
        directory_mode,
        subdir_mode: if subdir_mode.is_set() { subdir_mode.octal() } else { directory_mode },
        keep_tree: section.value(&KEEP_TREE).boolean(),
        versions: section.value(&VERSIONS).boolean(),
        touch: section.value(&TOUCH).boolean(),
        touch_modified: section.value(&TOUCH_MTIME).boolean(),
        min_size: section.value(&MIN_SIZE).bytes(),
        max_size: section.value(&MAX_SIZE).bytes(),
        exclude: globs(section, &EXCLUDE),
        exclude_dir: globs(section, &EXCLUDE_DIR),
        no_versions: globs(section, &NO_VERSIONS),
        keep: keep(section.value(&KEEP)),
    };
    if !modules::are_asked_for(&section, "recycle") {
        return;
    }
    if recycle.repository.constant().is_some_and(|text| text.is_empty()) {
        let problem = warning(Code::Contradiction, "`recycle:repository` is empty: deleted files are not kept");
        repository.report(problem.remedy("set a directory of the share, such as .recycle"));
        return;
    }
    check_repository(repository, &recycle, share);
    share.recycle = Some(Arc::new(recycle));
}

/// Returns patterns for names; their case does not matter, whatever `case sensitive` is.
fn globs(section: Reader<'_>, parameter: &'static Parameter) -> Globs {
    Globs::new(section.value(parameter).list().iter().map(String::as_str), true)
}

/// Reports a repository that no session could use.
fn check_repository(value: ValueReader<'_>, recycle: &Recycle, share: &Share) {
    let unknown: Vec<_> =
        recycle.repository.variables().filter(|it| !VARIABLES.contains(it)).map(|it| format!("%{}", it.0)).collect();
    if !unknown.is_empty() {
        let known: Vec<_> = VARIABLES.iter().map(|variable| format!("%{}", variable.0)).collect();
        return value.bad_value(&unknown.join(", "), &format!("the variables {}", known.join(" ")));
    }
    // The path of a share that differs between sessions is known when a client connects.
    let root = if share.path_template.is_none() { share.path.as_path() } else { Path::new("/") };
    if recycle.directory(root, |_| Some("x".to_owned())).is_none() {
        value.bad_value(&value.choice(), "a directory below the share's path");
    }
}

/// Reads a time such as `30d`.
fn keep(value: ValueReader<'_>) -> Option<Duration> {
    let text = value.choice();
    let number = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "d" => Some(86_400),
        "h" => Some(3_600),
        "m" => Some(60),
        "" if number == "0" => Some(0),
        _ => None,
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = unit.zip(number.parse::<u64>().ok().filter(|_| digits)).and_then(|(unit, it)| it.checked_mul(unit));
    match seconds.filter(|seconds| i64::try_from(*seconds).is_ok()) {
        Some(seconds) => Some(Duration::from_secs(seconds)).filter(|keep| !keep.is_zero()),
        None => {
            value.bad_value(&text, "a number of days, hours or minutes, such as 30d, 12h or 90m, or 0");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::load_files;
    use server::policy::Template;

    fn share_with(lines: &str) -> Result<Option<Recycle>, String> {
        let (loaded, directory) = load_files(&[("smb.conf", &format!("[x]\npath = @DIR@/x\n{lines}\n"))]);
        drop(directory);
        let loaded = loaded.map_err(|problems| problems.to_string())?;
        if loaded.warnings.faulty_shares().next().is_some() {
            return Err(loaded.warnings.to_string());
        }
        Ok(loaded.policy.shares["x"].recycle.as_deref().cloned())
    }

    #[test]
    fn options_are_read_if_the_module_is_named() {
        assert!(share_with("recycle:keeptree = yes").expect("it loads").is_none());
        let recycle = share_with("vfs objects = acl_xattr recycle").expect("it loads").expect("a recycle bin");
        assert_eq!(recycle.repository, Template::parse(".recycle").expect("no variables"));
        assert_eq!((recycle.directory_mode, recycle.subdir_mode), (0o700, 0o700));
        assert!(!recycle.keep_tree && !recycle.versions && !recycle.touch && recycle.keep.is_none());
        let recycle = share_with(
            "vfs objects = recycle\nrecycle:repository = bin/%U\nrecycle:directory_mode = 750\nrecycle:keeptree = yes\n\
             recycle:versions = yes\nrecycle:touch_mtime = yes\nrecycle:minsize = 1k\nrecycle:maxsize = 10m\n\
             recycle:exclude = *.tmp, ~*\nrecycle:exclude_dir = tmp cache\nrecycle:noversions = *.doc\n\
             frevo:recycle keep = 30d",
        );
        let recycle = recycle.expect("it loads").expect("a recycle bin");
        assert_eq!((recycle.directory_mode, recycle.subdir_mode), (0o750, 0o750));
        assert!(recycle.keep_tree && recycle.versions && recycle.touch_modified && !recycle.touch);
        assert_eq!((recycle.min_size, recycle.max_size), (1024, 10 << 20));
        assert!(recycle.exclude.matches(b"A.TMP") && recycle.exclude.matches(b"~x") && !recycle.exclude.matches(b"x"));
        assert!(recycle.exclude_dir.matches(b"cache") && recycle.no_versions.matches(b"x.doc"));
        assert_eq!(recycle.keep, Some(Duration::from_secs(30 * 86_400)));
    }

    #[test]
    fn unusable_values_are_errors() {
        for line in [
            "recycle:repository = ../bin",
            "recycle:repository = /elsewhere",
            "recycle:repository = .",
            "recycle:repository = bin/%d",
            "recycle:directory_mode = 9z",
            "recycle:keeptree = maybe",
            "recycle:minsize = many",
            "frevo:recycle keep = 30",
            "frevo:recycle keep = d",
            "frevo:recycle keep = -1d",
            "frevo:recycle keep = 99999999999999999999d",
        ] {
            let parameter = line.split(" = ").next().unwrap_or_default();
            let loaded = share_with(&format!("vfs objects = recycle\n{line}"));
            assert!(loaded.is_err_and(|problems| problems.contains(parameter)), "{line}");
        }
        for (line, seconds) in [("0", None), ("12h", Some(43_200)), ("90m", Some(5_400)), ("1d", Some(86_400))] {
            let recycle = share_with(&format!("vfs objects = recycle\nfrevo:recycle keep = {line}"));
            let recycle = recycle.expect("it loads").expect("a recycle bin");
            assert_eq!(recycle.keep, seconds.map(Duration::from_secs), "{line}");
        }
        assert!(share_with("vfs objects = recycle\nrecycle:repository =").expect("it loads").is_none());
        assert!(share_with("vfs objects = recycle\nrecycle:repository = %P/bin").expect("it loads").is_some());
        assert!(share_with("vfs objects = recycle\nrecycle:repository = @DIR@/x/bin").expect("it loads").is_some());
    }
}

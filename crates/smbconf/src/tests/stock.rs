//! Configurations that distributions install.

use super::*;

/// The name and text of a file among the configurations that are compared with testparm.
macro_rules! configuration {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../tests/foreign/configs/", $name)))
    };
}

/// Returns the problems of the first file, whose shares all have a directory.
fn problems(files: &[(&str, &str)]) -> Problems {
    let shared = |line: &str| match line.trim().starts_with("path = /") {
        true => "path = @DIR@/x\n".to_owned(),
        false => format!("{line}\n"),
    };
    let mut files: Vec<(&str, String)> =
        files.iter().map(|(name, text)| (*name, text.lines().map(shared).collect())).collect();
    files[0].0 = "smb.conf";
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let (loaded, _directory) = load_files(&files);
    loaded.unwrap_or_else(|problems| panic!("{}: {problems}", files[0].1)).warnings
}

#[test]
fn the_files_of_distributions_have_no_warning() {
    let files: [&[(&str, &str)]; 3] = [
        &[configuration!("01-debian.conf")],
        &[configuration!("02-fedora.conf"), configuration!("usershares.inc")],
        &[configuration!("03-suse.conf"), configuration!("dhcp.inc")],
    ];
    for files in files {
        let problems = problems(files);
        assert!(problems.0.iter().all(|problem| problem.severity == Severity::Note), "{}: {problems}", files[0].0);
        // Everything without effect is one note.
        let single = problems.0.iter().filter(|problem| problem.is_single_note()).count();
        assert!(single <= 1 && problems.brief().lines().count() <= single * 2 + 2, "{}", problems.brief());
    }
}

#[test]
fn what_the_file_of_debian_loses_is_named() {
    let lost = problems(&[configuration!("01-debian.conf")]).unavailable();
    let expected = ["changing the UNIX password together with the SMB password"];
    assert_eq!(lost, expected);
}

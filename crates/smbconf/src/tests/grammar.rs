//! Tests of the grammar: sections, lines, includes, the registry, comments, and input that is not a configuration.

use super::*;

fn loaded(files: &[(&str, &str)]) -> Loaded {
    load_files(files).0.unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the codes of all problems, notes included.
fn codes(loaded: &Loaded) -> Vec<Code> {
    loaded.warnings.0.iter().map(|problem| problem.code).collect()
}

#[test]
fn lines_before_the_first_section_are_global() {
    let loaded = loaded(&[("smb.conf", "workgroup = EARLY\nread only = no\n[x]\npath = @DIR@/x\n")]);
    assert_eq!(loaded.policy.workgroup, "EARLY");
    assert!(!loaded.policy.shares["x"].access.read_only);
    assert_eq!(codes(&loaded), [Code::OutsideSection; 2]);
    assert!(!loaded.warnings.0.iter().any(Problem::fails_check));
}

#[test]
fn a_repeated_section_continues_the_first() {
    let text = "[x]\npath = /nowhere\nguest ok = yes\n[global]\n[X]\npath = @DIR@/x\nread only = no\n";
    let loaded = loaded(&[("smb.conf", text)]);
    let share = &loaded.policy.shares["x"];
    assert!(share.path.ends_with("x") && share.access.guest_ok && !share.access.read_only);
    assert_eq!((loaded.policy.shares.len(), &*share.name), (1, "x"));
    assert_eq!(codes(&loaded), [Code::DuplicateShare, Code::SetTwice]);
}

#[test]
fn a_share_inherits_only_the_global_values_before_it() {
    let text = "[global]\nhide dot files = no\n[a]\npath = @DIR@/x\n[global]\nread only = no\nguest ok = yes\n\
                hide dot files = yes\n[b]\npath = @DIR@/x\n[c]\npath = @DIR@/x\ncopy = a\n";
    let shares = loaded(&[("smb.conf", text)]).policy.shares;
    let of = |name: &str| {
        let share = &shares[name];
        (share.access.read_only, share.access.guest_ok, share.names.hide_dot_files)
    };
    assert_eq!(of("a"), (true, false, false));
    assert_eq!(of("b"), (false, true, true));
    assert_eq!(of("c"), of("a"), "a copy has the values of the other share");
}

#[test]
fn a_missing_include_is_a_warning_and_an_unreadable_one_an_error() {
    check(
        "[global]\ninclude = gone.conf\n",
        "@DIR@/smb.conf:2: warning: include = gone.conf: cannot read @DIR@/gone.conf: No such file or directory \
         (os error 2)\n  remedy: correct the path (relative paths start at this file's directory) or remove the line",
    );
    check(
        "[global]\ninclude = x\n",
        "@DIR@/smb.conf:2: error: include = x: cannot read @DIR@/x: it is not a regular file\n  \
         remedy: correct the path (relative paths start at this file's directory) or remove the line",
    );
}

#[test]
fn a_file_that_includes_itself_is_an_error() {
    let files = [("smb.conf", "[global]\ninclude = a.conf\n"), ("a.conf", "\ninclude = @DIR@/smb.conf\n")];
    assert_eq!(
        said(&files),
        "@DIR@/a.conf:2: error: include = @DIR@/smb.conf: the file includes itself \
         (@DIR@/smb.conf -> @DIR@/a.conf -> @DIR@/smb.conf)\n  remedy: remove this include, or the one that leads here"
    );
    let twice =
        said(&[("smb.conf", "[global]\ninclude = a.conf\ninclude = a.conf\n"), ("a.conf", "time server = yes\n")]);
    assert_eq!(twice, "", "a file may be included twice, but not within itself");
}

#[test]
fn includes_that_double_with_each_level_are_bounded() {
    let files: Vec<(String, String)> =
        (0..20).map(|level| (format!("{level}"), format!("include = {0}\ninclude = {0}\n", level + 1))).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("smb.conf", "include = 0\n"));
    files.push(("20", ""));
    let problems = load_files(&files).0.expect_err("more than a million files");
    assert!(problems.0.iter().any(|problem| problem.code == Code::IncludeLoop), "{problems}");
}

#[test]
fn malformed_lines_are_errors_if_they_may_be_restrictions() {
    check(
        "[global]\nnothing\n= 5\nhosts allow 10.0.0.1\n[y\nread only = no\n[z] path = /\npath = @DIR@/x\n[]\n[a/b]\n\
         ignored = 1\n[c]\npath = @DIR@/x\nread only\n",
        "@DIR@/smb.conf:2: warning: `nothing` is neither a [section] nor `name = value`\n  \
         remedy: write `name = value`; a comment begins with # or ; at the start of its line, and a line is continued \
         by a backslash at its end\n\
         @DIR@/smb.conf:3: error: `= 5` has no name before the =\n  remedy: write `name = value`\n\
         @DIR@/smb.conf:4: error: `hosts allow 10.0.0.1` has no = after `hosts allow`\n  \
         remedy: write `name = value`; a comment begins with # or ; at the start of its line, and a line is continued \
         by a backslash at its end\n\
         @DIR@/smb.conf:5: error: the share [y] is not served: `[y` has no closing bracket\n  remedy: write `[name]`\n\
         @DIR@/smb.conf:7: error: the share [z] is not served: text `path = /` after the section header [z]\n  \
         remedy: put it on a line of its own\n\
         @DIR@/smb.conf:9: error: the share [] is not served: [] cannot be the name of a share: it is empty\n  \
         remedy: choose another name\n\
         @DIR@/smb.conf:10: error: the share [a/b] is not served: [a/b] cannot be the name of a share: it contains \
         '/', which clients cannot send in a name\n  remedy: choose another name\n\
         @DIR@/smb.conf:14: error: the share [c] is not served: `read only` has no = after `read only`\n  \
         remedy: write `name = value`; a comment begins with # or ; at the start of its line, and a line is continued \
         by a backslash at its end",
    );
    check(
        "[global\nhosts allow = 10.\n",
        "@DIR@/smb.conf:1: error: `[global` has no closing bracket\n  remedy: write `[name]`",
    );
}

#[test]
fn obsolete_values_are_warnings_that_name_the_replacement() {
    for (line, replacement) in [
        ("security = share", "`security = user`; for shares without a password"),
        ("security = SERVER", "`security = user` with accounts of this server"),
        ("encrypt passwords = no", "frevo user passwd"),
        ("max protocol = NT1", "remove the line"),
        ("passdb backend = smbpasswd:/p guest", "remove `guest`"),
    ] {
        let text = format!("[global]\n{line}\n[x]\npath = @DIR@/x\n");
        let loaded = loaded(&[("smb.conf", &text)]);
        let problem = loaded.warnings.0.iter().find(|problem| problem.code == Code::ObsoleteValue);
        let problem = problem.unwrap_or_else(|| panic!("{line}: {}", loaded.warnings));
        assert!(problem.remedy.contains(replacement), "{line}: {problem}");
        assert!(problem.severity == Severity::Warning && loaded.policy.membership.is_none());
        assert_eq!(loaded.policy.server_max_protocol, server::policy::Protocol::Smb3_11);
    }
}

#[test]
fn invalid_values_that_give_nobody_more_rights_are_warnings() {
    check(
        "[global]\nlog level = loud\nsocket options = TCP_NODELAY TCP_MAGIC\n[x]\npath = @DIR@/x\n",
        "@DIR@/smb.conf:2: warning: `loud` is not a valid value for `log level`, and is ignored\n  \
         remedy: allowed: a number from 0 to 10, and class:number or class:number@FILE for single classes\n\
         @DIR@/smb.conf:3: warning: `TCP_MAGIC` is not a valid value for `socket options`, and is ignored\n  \
         remedy: allowed: TCP_NODELAY, SO_KEEPALIVE, SO_RCVBUF=65536 and other options of socket(7) and tcp(7)",
    );
}

#[test]
fn comments_behind_values_are_reported() {
    check(
        "[x]\npath = @DIR@/x\ncreate mask = 0700 # mine\nvalid users = ann # not bob\nread only = no ; x\n",
        "@DIR@/smb.conf:3: warning: `create mask` is 0700: the comment `# mine` behind the number is ignored\n  \
         remedy: put the comment on a line of its own\n\
         @DIR@/smb.conf:4: warning: `# not bob` is a part of the value of `valid users`, as in Samba, not a comment\n  \
         remedy: put the comment on a line of its own, which begins with # or ;\n\
         @DIR@/smb.conf:5: error: the share [x] is not served: `no ; x` is not a valid value for `read only`\n  \
         remedy: allowed: yes or no (also true, false, on, off, 1, 0); a comment must be on its own line",
    );
    let (loaded, directory) = load_files(&[("smb.conf", "[x]\npath = @DIR@/x ; data\n")]);
    let loaded = loaded.expect("it starts");
    assert_eq!(loaded.policy.shares["x"].path, directory.path().join("x ; data"));
    let codes: BTreeSet<_> = codes(&loaded).into_iter().collect();
    assert_eq!(codes, [Code::MissingPath, Code::TrailingComment].into());
}

#[test]
fn the_registry_is_read_from_its_copy() {
    let registry = "[global]\n\tworkgroup = REGISTRY\n\tinclude = registry\n\n[x]\n\tpath = /\n\n\
                    [r]\n\tpath = @DIR@/x\n\tread only = no\n";
    for line in ["include = registry", "config backend = registry"] {
        let text = format!("[global]\nworkgroup = FILE\n{line}\nserver string = after\n[x]\npath = @DIR@/x\n");
        let loaded = loaded(&[("smb.conf", &text), ("registry.conf", registry)]);
        let policy = &loaded.policy;
        assert_eq!((&*policy.workgroup, &*policy.server_string), ("REGISTRY", "after"), "{line}");
        assert!(policy.shares["x"].access.read_only && policy.shares["x"].path.ends_with("x"), "the file comes first");
        assert!(!policy.shares["r"].access.read_only);
        assert!(!loaded.warnings.0.iter().any(|problem| problem.code == Code::NotServed), "{}", loaded.warnings);
    }
    let text = "[global]\nworkgroup = FILE\nregistry shares = yes\n[x]\npath = @DIR@/x\n";
    let loaded = loaded(&[("smb.conf", text), ("registry.conf", registry)]);
    assert_eq!((&*loaded.policy.workgroup, loaded.policy.shares.len()), ("FILE", 2));
}

#[test]
fn a_registry_without_a_copy_is_an_error_unless_only_its_shares_are_missing() {
    for (line, starts) in
        [("include = registry", false), ("config backend = registry", false), ("registry shares = yes", true)]
    {
        let (loaded, directory) = load_files(&[("smb.conf", &format!("[global]\n{line}\n[x]\npath = @DIR@/x\n"))]);
        assert_eq!(loaded.is_ok(), starts, "{line}");
        let problems = loaded.map_or_else(|problems| problems, |loaded| loaded.warnings);
        assert_eq!(problems.0.len(), 1, "{problems}");
        let copy = directory.path().join("registry.conf");
        let remedy = &problems.0[0].remedy;
        assert!(remedy.contains(&format!("net conf list > {}", copy.display())), "{remedy}");
    }
    let loaded =
        loaded(&[("smb.conf", "[global]\nregistry shares = no\nconfig backend = file\n[x]\npath = @DIR@/x\n")]);
    assert!(loaded.warnings.0.is_empty(), "{}", loaded.warnings);
}

#[test]
fn a_line_in_another_character_set_is_read_only_if_it_is_only_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("smb.conf");
    std::fs::write(&path, b"[global]\nserver string = caf\xe9\n[x]\npath = /\ninvalid users = m\xfcller\n")
        .expect("a file");
    let loaded = load(&path, &TestNames).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(loaded.policy.server_string, "caf\u{e9}");
    assert!(!loaded.policy.shares["x"].available);
    std::fs::write(&path, b"[global]\ninvalid users = m\xfcller\n").expect("a file");
    assert!(load(&path, &TestNames).is_err());
}

#[test]
fn a_file_that_is_too_large_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("smb.conf");
    std::fs::File::create(&path).and_then(|file| file.set_len(100 << 20)).expect("a file");
    let problems = load(&path, &TestNames).expect_err("100 MiB");
    assert!(problems.to_string().contains("it is larger than 16 MiB"), "{problems}");
    std::fs::File::create(&path).and_then(|file| file.set_len(1000)).expect("a file");
    let problems = load(&path, &TestNames).expect_err("NUL bytes");
    assert!(problems.to_string().contains("the line contains a NUL byte"), "{problems}");
}

#[test]
fn lines_of_a_megabyte_are_read_and_reported_briefly() {
    let long = "x".repeat(1_000_000);
    let text = format!("[x]\npath = @DIR@/x\ncomment = {long}\n{long}\n{long} = 1\nread only = {long}\n");
    let (loaded, _directory) = load_files(&[("smb.conf", &text)]);
    let loaded = loaded.expect("it starts");
    assert!(!loaded.policy.shares["x"].available && loaded.warnings.0.len() == 3, "{}", loaded.warnings);
    assert!(loaded.warnings.to_string().len() < 20_000);
}

#[test]
fn ten_thousand_shares_are_served_with_and_without_errors() {
    for (lines, served) in [("copy = s0\n", true), ("read only = maybe\n", false), ("force user = ghost\n", false)] {
        let mut text = String::from("[s0]\npath = /\n");
        (1..10_000).for_each(|number| text += &format!("[s{number}]\npath = /\n{lines}"));
        let loaded = read_text(text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.policy.shares.len(), 10_000);
        let available = loaded.policy.shares.values().filter(|share| share.available).count();
        assert_eq!(available, if served { 10_000 } else { 1 });
    }
}

#[test]
fn a_file_of_unknown_parameters_is_read_in_a_bounded_time() {
    let mut text = String::from("[global]\nraed only = no\n");
    // Comparing each of them with all known names would take minutes.
    (0..100_000).for_each(|number| text += &format!("raed only {number} = no\n"));
    let loaded = read_text(text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"));
    let unknown = loaded.warnings.0.iter().filter(|problem| problem.code == Code::UnknownParameter).collect::<Vec<_>>();
    assert_eq!(unknown.len(), 100_001);
    assert!(unknown[0].remedy.contains("did you mean `read only`"), "{}", unknown[0]);
    assert!(unknown.iter().all(|problem| !problem.remedy.is_empty()));
    assert!(unknown.iter().filter(|problem| problem.remedy.contains("did you mean")).count() <= 200);
}

#[test]
fn an_include_is_relative_to_the_directory_of_its_file_not_to_the_root_directory() {
    let directory = tempfile::tempdir_in(".").expect("a directory");
    let folder = PathBuf::from(directory.path().file_name().expect("a name"));
    std::fs::write(folder.join("part.conf"), "comment = read\n").expect("a file");
    let text = format!("[x]\npath = /\ninclude = {}/part.conf\n", folder.display());
    let main = tempfile::NamedTempFile::new_in(".").expect("a file");
    std::fs::write(main.path(), text).expect("a file");
    let name = Path::new(main.path().file_name().expect("a name"));
    let loaded = load(name, &TestNames).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((&*loaded.policy.shares["x"].comment, loaded.warnings.to_string().contains("part")), ("read", false));
}

#[test]
fn an_include_that_cannot_be_read_is_not_only_the_error_of_the_share_above() {
    let text = "[x]\npath = @DIR@/x\n[y]\npath = @DIR@/x\ninclude = @DIR@/x\n";
    let problems = load_files(&[("smb.conf", text)]).0.expect_err("a directory cannot be read as a file");
    assert_eq!(problems.0.iter().map(|problem| problem.share.as_deref()).collect::<Vec<_>>(), [None], "{problems}");
    let text = "[global]\nconfig file = /etc/other.conf\n[x]\npath = @DIR@/x\n";
    assert!(load_files(&[("smb.conf", text)]).0.is_err(), "the other file may restrict more");
}

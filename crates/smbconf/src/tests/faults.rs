//! Tests that a share with errors is not served, and that the others are.

use super::*;

#[test]
fn a_share_with_an_error_does_not_stop_the_others() {
    let faults = [
        "read only = maybe",
        "path = relative",
        "force user = joe",
        "force user = hang",
        "force group = joes",
        "copy = gone",
        "hosts allow = 10.0.0.0/99",
        "streams_xattr:prefix = trusted.x.",
        "valid users",
    ];
    for fault in faults {
        let text = format!("[x]\npath = @DIR@/x\n{fault}\n[y]\npath = @DIR@/x\n");
        let loaded = load_files(&[("smb.conf", &text)]).0.unwrap_or_else(|problems| panic!("{fault}: {problems}"));
        assert!(!loaded.policy.shares["x"].available, "{fault}");
        assert!(loaded.policy.shares["y"].available, "{fault}");
        assert_eq!(loaded.warnings.faulty_shares().collect::<Vec<_>>(), ["x"], "{fault}: {}", loaded.warnings);
        assert!(loaded.warnings.0.iter().any(Problem::fails_check), "{fault}");
        assert!(!loaded.effective.differing().iter().any(|(name, _)| name == "x"), "{fault}");
    }
}

#[test]
fn an_error_in_the_global_section_is_not_one_of_a_share() {
    for fault in ["hosts allow = 10.0.0.0/99", "guest ok = maybe", "server signing = perhaps", "hosts deny 10.", "\0"] {
        let text = format!("[global]\n{fault}\n[x]\npath = @DIR@/x\n[y]\npath = @DIR@/x\n");
        let problems = load_files(&[("smb.conf", &text)]).0.expect_err(fault);
        assert_eq!(problems.0.len(), 1, "{fault}: {problems}");
        assert_eq!(problems.0[0].share, None, "{fault}");
    }
}

#[test]
fn an_inherited_name_that_does_not_exist_concerns_the_shares_that_use_it() {
    let text = "[global]\nforce user = joe\n[x]\npath = @DIR@/x\n[y]\npath = @DIR@/x\nforce user = ann\n";
    let loaded = load_files(&[("smb.conf", text)]).0.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(!loaded.policy.shares["x"].available && loaded.policy.shares["y"].available);
}

#[test]
fn a_copy_of_a_share_with_errors_is_not_served() {
    let text = "[x]\npath = @DIR@/x\nvalid users = ann\nread only = maybe\n[y]\ncopy = x\nread only = no\n";
    let loaded = load_files(&[("smb.conf", text)]).0.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(!loaded.policy.shares["x"].available && !loaded.policy.shares["y"].available, "{}", loaded.warnings);
}

#[test]
fn a_share_with_an_error_keeps_its_former_version() {
    let read = |text: &str| load_files(&[("smb.conf", text)]).0.unwrap_or_else(|problems| panic!("{problems}"));
    let former = read("[x]\npath = /\ncomment = old\n[Data]\npath = /\ncomment = old\n[z]\npath = /\n").policy;
    let mut now = read("[x]\npath = /\ncomment = new\n[data]\npath = /\nread only = maybe\n[new]\nread only = maybe\n");
    assert_eq!(now.keep_former(&former), ["Data"]);
    let shares = &now.policy.shares;
    assert_eq!((&*shares["x"].comment, &*shares["data"].comment), ("new", "old"));
    assert!(shares["data"].available && !shares["new"].available && !shares.contains_key("z"));
    // A share that must not be served without a module is not kept.
    let mut now = read("[x]\npath = /\nvfs objects = worm\n");
    assert!(now.keep_former(&former).is_empty() && !now.policy.shares["x"].available);
}

//! Tests of files that are included for single sessions.

use server::answer::Answer;
use server::policy::template::Variable;
use server::policy::{SESSION_VARIABLES, SessionValues};

use super::*;

/// The variables of a session of `user` at the client `name`.
pub(super) fn session(user: &str, name: &str) -> SessionValues {
    SESSION_VARIABLES.map(|variable| match variable {
        Variable::SESSION_USER => Some(user.to_owned()),
        Variable::CLIENT_NETBIOS_NAME => Some(name.to_owned()),
        Variable::CLIENT_ADDRESS => Some("fe80::1".to_owned()),
        _ => None,
    })
}

/// Returns the policy of the server, and the directory of its files.
fn loaded(files: &[(&str, &str)]) -> (Policy, tempfile::TempDir) {
    let directory = directory(files);
    std::fs::create_dir(directory.path().join("x")).expect("a directory");
    let loaded = load(&directory.path().join("smb.conf"), &Owned).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(loaded.warnings.0.is_empty(), "{}", loaded.warnings);
    (loaded.policy, directory)
}

/// Returns the policy of a session; `None` if it is that of the server.
pub(super) async fn of_session(policy: &Policy, values: SessionValues) -> Result<Option<Arc<Policy>>, String> {
    let sessions = policy.sessions.as_ref().expect("the configuration depends on the session");
    let answer: Answer<_> = sessions.policy(values);
    answer.await.map_err(|why| why.0)
}

const MAIN: &str = "[global]\ninclude = @DIR@/conf.%m\n[all]\npath = @DIR@/x\ninclude = of-%U\n";

#[tokio::test]
async fn a_session_has_the_files_of_its_client_and_user() {
    let (policy, _directory) = loaded(&[
        ("smb.conf", MAIN),
        ("conf.box", "read only = no\ninclude = nested-%U\n[box]\npath = @DIR@/x\n"),
        ("nested-ann", "hide dot files = no\n"),
        ("of-bob", "comment = of bob\n"),
    ]);
    assert_eq!(policy.shares.keys().collect::<Vec<_>>(), ["all"]);
    assert!(policy.shares["all"].access.read_only && policy.shares["all"].comment.is_empty());
    assert!(of_session(&policy, session("ann", "other")).await.expect("a policy").is_none());
    let ann = of_session(&policy, session("ann", "box")).await.expect("a policy").expect("another one");
    assert_eq!(ann.shares.keys().collect::<Vec<_>>(), ["all", "box"]);
    assert!(!ann.shares["all"].access.read_only && !ann.shares["all"].names.hide_dot_files);
    let bob = of_session(&policy, session("bob", "box")).await.expect("a policy").expect("another one");
    assert_eq!((&*bob.shares["all"].comment, bob.shares["all"].names.hide_dot_files), ("of bob", true));
}

#[tokio::test]
async fn a_policy_is_cached_until_a_file_of_the_session_changes() {
    let (policy, directory) = loaded(&[("smb.conf", MAIN), ("conf.box", "[one]\npath = @DIR@/x\n")]);
    let values = || session("ann", "box");
    let first = of_session(&policy, values()).await.expect("a policy").expect("another one");
    let again = of_session(&policy, values()).await.expect("a policy").expect("another one");
    assert!(Arc::ptr_eq(&first, &again));
    // A file that the session did not have before.
    std::fs::write(directory.path().join("of-ann"), "comment = new\n").expect("a file");
    let now = of_session(&policy, values()).await.expect("a policy").expect("another one");
    assert_eq!(now.shares["all"].comment, "new");
    std::fs::write(directory.path().join("conf.box"), "[two]\npath = /\n").expect("a file");
    let now = of_session(&policy, values()).await.expect("a policy").expect("another one");
    assert_eq!(now.shares.keys().collect::<Vec<_>>(), ["all", "two"]);
    // The other files are those of the last reload.
    std::fs::write(directory.path().join("smb.conf"), "nonsense").expect("a file");
    std::fs::write(directory.path().join("conf.box"), "[three]\npath = /\n").expect("a file");
    let now = of_session(&policy, values()).await.expect("a policy").expect("another one");
    assert_eq!(now.shares.keys().collect::<Vec<_>>(), ["all", "three"]);
    std::fs::remove_file(directory.path().join("conf.box")).expect("a file");
    std::fs::remove_file(directory.path().join("of-ann")).expect("a file");
    assert!(of_session(&policy, values()).await.expect("a policy").is_none());
}

#[tokio::test]
async fn errors_in_a_file_of_a_session_concern_the_session() {
    let (policy, _directory) = loaded(&[
        ("smb.conf", MAIN),
        ("conf.bad", "hosts allow = 10.0.0.0/99\n"),
        ("conf.half", "[faulty]\npath = /\nread only = maybe\n"),
        ("of-joe", "read only = maybe\n"),
        ("conf.loop", "include = @DIR@/conf.%m\n"),
    ]);
    let refused = of_session(&policy, session("ann", "bad")).await.expect_err("[global] has an error");
    assert!(refused.contains("10.0.0.0/99"), "{refused}");
    assert!(of_session(&policy, session("ann", "loop")).await.is_err());
    let half = of_session(&policy, session("ann", "half")).await.expect("a policy").expect("another one");
    assert!(!half.shares["faulty"].available && half.shares["all"].available);
    let joe = of_session(&policy, session("joe", "other")).await.expect("a policy").expect("another one");
    assert!(!joe.shares["all"].available);
}

#[tokio::test]
async fn a_client_cannot_choose_another_file() {
    let (policy, directory) = loaded(&[
        ("smb.conf", "[global]\ninclude = @DIR@/conf/%m/smb.conf\ninclude = @DIR@/of-%I\n[all]\npath = @DIR@/x\n"),
        ("secret.conf", "[secret]\npath = /\n"),
    ]);
    std::fs::create_dir_all(directory.path().join("conf/a")).expect("a directory");
    std::fs::write(directory.path().join("conf/smb.conf"), "[parent]\npath = /\n").expect("a file");
    for name in ["..", ".", "a/..", "../conf", "a/../../secret.conf\0", "", "\u{2024}\u{2024}/x", "%m", "\\.."] {
        assert!(of_session(&policy, session("ann", name)).await.expect("a policy").is_none(), "{name:?}");
    }
    std::fs::create_dir(directory.path().join("conf/a_b")).expect("a directory");
    std::fs::write(directory.path().join("conf/a_b/smb.conf"), "[slash]\npath = /\n").expect("a file");
    let found = of_session(&policy, session("ann", "a/b")).await.expect("a policy").expect("another one");
    assert!(found.shares.contains_key("slash"));
    std::fs::write(directory.path().join("of-fe80::1"), "[address]\npath = /\n").expect("a file");
    let found = of_session(&policy, session("ann", "other")).await.expect("a policy").expect("another one");
    assert!(found.shares.contains_key("address"));
}

#[test]
fn a_variable_that_no_session_has_is_a_warning() {
    let text = "[global]\ninclude = @DIR@/%S.conf\n[x]\npath = @DIR@/x\n";
    let loaded = load_files(&[("smb.conf", text)]).0.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(loaded.policy.sessions.is_none());
    assert_eq!(loaded.warnings.0.iter().map(|problem| problem.code).collect::<Vec<_>>(), [Code::NotServed]);
}

//! Passwords that the host's modules verify, with service files of the test.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pam::{NotVerified, Settings, verify_password};

const SERVICE: &str = "frevo-test";

fn settings(directory: &Path, lines: &str) -> Settings {
    std::fs::write(directory.join(SERVICE), lines).expect("a file");
    Settings { service: SERVICE.into(), directory: Some(directory.to_owned()), ..Settings::default() }
}

fn own_name() -> String {
    let user = std::process::Command::new("id").arg("-un").output().expect("it runs").stdout;
    String::from_utf8(user).expect("a name").trim().to_owned()
}

#[test]
fn a_success_without_the_password_is_a_refusal() {
    let directory = tempfile::tempdir().expect("a directory");
    for lines in [
        "auth required pam_permit.so\naccount required pam_permit.so\n",
        // The process of the console is root's, and tests may be.
        "auth sufficient pam_rootok.so\nauth required pam_permit.so\naccount required pam_permit.so\n",
        "auth sufficient pam_succeed_if.so uid >= 0\naccount required pam_permit.so\n",
    ] {
        let settings = settings(directory.path(), lines);
        let outcome = verify_password(&settings, &own_name(), "anything", None);
        let Err(NotVerified::Refused(why)) = outcome else { panic!("{lines}: {outcome:?}") };
        assert!(why.contains("have not asked"), "{lines}: {why}");
    }
}

#[test]
fn modules_get_the_password_the_terminal_and_the_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let (script, log) = (directory.path().join("script"), directory.path().join("log"));
    // The password arrives with a zero at its end.
    let text = format!(
        "#!/bin/sh\necho \"$PAM_TTY ${{PAM_RHOST-none}}\" >> {}\n[ \"$(tr -d '\\0')\" = right ]\n",
        log.display()
    );
    std::fs::write(&script, text).expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its owner may");
    let lines = format!(
        "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
        script.display()
    );
    let settings_of = |lines: &str| settings(directory.path(), lines);
    let settings = settings_of(&lines);
    let name = own_name();
    assert_eq!(verify_password(&settings, &name, "right", Some("192.0.2.7")), Ok(()));
    assert!(matches!(verify_password(&settings, &name, "wrong", None), Err(NotVerified::Refused(_))));
    assert_eq!(std::fs::read_to_string(&log).expect("the log"), "frevo-console 192.0.2.7\nfrevo-console none\n");
    let expired = settings_of(&lines.replace("account required pam_permit.so", "account required pam_deny.so"));
    assert!(matches!(verify_password(&expired, &name, "right", None), Err(NotVerified::Refused(_))));
}

//! Print shares.

use std::path::Path;

use server::policy::printing::QueueSystem;

use super::*;

#[test]
fn a_printable_share_is_a_queue_with_a_spool_directory() {
    let text = "[ink]\nprintable = yes\n[laser]\nprint ok = yes\npath = @DIR@/x\nprinter = HP\ncups options = raw\n\
                max print jobs = 5\nmin print space = 2\n[x]\npath = @DIR@/x\n";
    let (loaded, directory) = load_files(&[("smb.conf", text)]);
    let loaded = loaded.expect("it loads");
    assert!(loaded.warnings.0.is_empty(), "{}", loaded.warnings);
    let share = |name: &str| loaded.policy.share(name).expect("a share").clone();
    assert!(share("x").printing.is_none());
    assert_eq!(share("ink").path, Path::new("/var/tmp"));
    assert_eq!(share("laser").path, directory.path().join("x"));
    let (ink, laser) = (share("ink").printing.clone(), share("laser").printing.clone());
    let (ink, laser) = (ink.expect("a printer"), laser.expect("a printer"));
    assert_eq!((&*ink.queue, ink.max_jobs, ink.min_space), ("ink", 1000, 0));
    assert_eq!((&*laser.queue, laser.max_jobs, laser.min_space), ("HP", 5, 2048));
    assert_eq!(laser.system, QueueSystem::Cups { options: vec![("raw".into(), "true".into())] });
}

#[test]
fn commands_are_those_of_the_print_system_unless_they_are_set() {
    let text = "[a]\nprintable = yes\nprinting = bsd\n[b]\nprintable = yes\nprinting = sysv\n\
                print command = p '%J' %s\nlpq command =\n";
    let (loaded, _directory) = load_files(&[("smb.conf", text)]);
    let policy = loaded.expect("it loads").policy;
    let commands = |name: &str| {
        let printing = policy.share(name).and_then(|share| share.printing.clone()).expect("a printer");
        let QueueSystem::Commands(commands) = &printing.system else { panic!("{name} has commands") };
        commands.all().map(|command| command.text().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(commands("a"), ["lpr -P%p %s", "lpq -P%p", "lprm -P%p %j"]);
    let of_b = ["p '%J' %s", "cancel %p-%j", "lp -i %p-%j -H hold", "lp -i %p-%j -H resume", "disable %p", "enable %p"];
    assert_eq!(commands("b"), of_b);
}

#[test]
fn a_command_that_needs_a_shell_is_an_error_of_its_share() {
    check(
        "[p]\nprintable = yes\nprinting = bsd\nprint command = lpr %s; rm %s\n[x]\npath = @DIR@/x\n",
        "@DIR@/smb.conf:4: error: the share [p] is not served: `print command` cannot be executed: `;` needs a shell, \
         and commands are executed without one\n  remedy: write an executable script, and name it with the variables \
         as its arguments; use '...' or \\ for a character that a shell would interpret",
    );
    check(
        "[p]\nprintable = yes\nprinting = nt\n",
        "@DIR@/smb.conf:3: error: the share [p] is not served: `nt` is not a valid value for `printing`\n  \
         remedy: allowed: cups, bsd, lprng, plp, sysv or hpux",
    );
}

#[test]
fn values_that_do_not_do_what_they_say_are_warnings() {
    let text = "[p]\nprintable = yes\nprinting = bsd\nprint command = plot %s %J\nmax print jobs = 20000\n";
    let (loaded, _directory) = load_files(&[("smb.conf", text)]);
    let loaded = loaded.expect("it loads");
    let printing = loaded.policy.share("p").and_then(|share| share.printing.clone()).expect("a printer");
    assert_eq!(printing.max_jobs, 10_000);
    let text = loaded.warnings.to_string();
    assert_eq!(loaded.warnings.0.len(), 2, "{text}");
    assert!(text.contains("begins with %J") && text.contains("more than the 10000 jobs"), "{text}");
}

#[test]
fn queues_are_made_into_shares_from_the_section_printers() {
    let text = "[printers]\npath = @DIR@/x\ncomment = the queue %S\nbrowseable = no\n";
    let directory = directory(&[("smb.conf", text)]);
    std::fs::create_dir(directory.path().join("x")).expect("a directory");
    let loaded = load(&directory.path().join("smb.conf"), &Owned).expect("it loads");
    assert!(loaded.warnings.0.is_empty() && loaded.policy.shares.is_empty(), "{}", loaded.warnings);
    let printers = loaded.policy.printers.expect("there are printers");
    assert!(loaded.policy.load_printers && !printers.section().browseable);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let share = runtime.block_on(printers.share_of("laser")).ok().flatten().expect("a share");
    assert_eq!((&*share.name, &*share.comment), ("laser", "the queue laser"));
    assert_eq!(share.printing.as_ref().map(|printing| &*printing.queue), Some("laser"));
}

#[test]
fn the_commands_of_all_print_shares_are_known_before_the_start() {
    let text = "[global]\nprinting = bsd\n[printers]\n[p]\nprintable = yes\nprint command = own %s\n[x]\npath = /x\n";
    let directory = directory(&[("smb.conf", text)]);
    let needs = confinement(Some(&directory.path().join("smb.conf")), &NoUsers);
    let texts: Vec<&str> = needs.print_commands.iter().map(|command| command.text()).collect();
    assert_eq!(texts, ["lpr -P%p %s", "lpq -P%p", "lprm -P%p %j", "own %s", "lpq -P%p", "lprm -P%p %j"]);
    // Those that a reload reports are the same.
    let loaded = load(&directory.path().join("smb.conf"), &Owned).expect("it loads");
    assert!(needs.print_commands.iter().all(|command| loaded.daemon.print_commands.contains(command)));
    assert!(loaded.daemon.print_commands.iter().all(|command| needs.print_commands.contains(command)));
}

/// A host whose names can be looked up later.
struct Owned;

impl Names for Owned {
    fn user(&self, _: &str) -> Result<Option<Arc<Identity>>, String> {
        Ok(None)
    }

    fn group(&self, _: &str) -> Result<Option<u32>, String> {
        Ok(None)
    }

    fn home(&self, _: &str, _: Option<u32>) -> Result<Option<PathBuf>, String> {
        Ok(None)
    }

    fn host(&self) -> String {
        "box".into()
    }

    fn environment(&self, _: &str) -> Option<String> {
        None
    }

    fn owned(&self) -> Option<Arc<dyn Names + Send + Sync>> {
        Some(Arc::new(Owned))
    }
}

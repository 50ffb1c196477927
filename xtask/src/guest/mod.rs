//! `cargo xtask guest`: scripts that need another kernel than this machine's, in a virtual machine with Debian's.
//!
//! The guest has this machine's files, which it cannot change, and a disk of its own for `/var/tmp`. The scripts are in
//! `xtask/guest`. They are run as root and write their results to a file.

mod initramfs;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use test_environment::{Counts, Target, interrupt};

use crate::expected;

/// Length of the disk of the guest, a sparse file.
const DISK: u64 = 8 << 30;
/// How often the end of the guest is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Options of `cargo xtask guest`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only these scripts of xtask/guest, given without .sh
    scripts: Vec<String>,
    /// Server to test: frevo (target/release/frevo) or samba (Debian's smbd)
    #[arg(long, default_value = "frevo")]
    target: Target,
    /// Version of the kernel, as in the names of the files in /boot [default: the newest]
    #[arg(long)]
    kernel: Option<String>,
    /// Memory of the guest in MiB
    #[arg(long, default_value_t = 3072)]
    memory: u32,
    /// Stop a script that takes longer
    #[arg(long, default_value_t = 45)]
    minutes: u64,
    /// Use the processor's virtualization, which is faster where it works, instead of emulation
    #[arg(long)]
    kvm: bool,
    /// Run only this part of the script
    #[arg(long, default_value = "")]
    only: String,
    /// Only print the names of the scripts
    #[arg(long)]
    pub(crate) list: bool,
}

/// Returns the names of the scripts.
pub(crate) fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder()).context("cannot read xtask/guest")? {
        let path = entry?.path();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        names.extend(stem.filter(|stem| path.extension().is_some_and(|end| end == "sh") && stem != "library"));
    }
    names.sort();
    Ok(names)
}

fn folder() -> PathBuf {
    crate::root().join("xtask/guest")
}

/// Runs the scripts, each in a guest of its own.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    let all = names()?;
    let unknown = options.scripts.iter().find(|name| !all.contains(name));
    ensure!(unknown.is_none(), "there is no script {unknown:?} in xtask/guest; `cargo xtask guest --list` lists them");
    let program = program()?;
    let mut counts = Counts::default();
    for name in all.iter().filter(|name| options.scripts.is_empty() || options.scripts.contains(name)) {
        println!("-- {name}");
        counts.add(script(name, &program, options)?.repeated_by(&format!("cargo xtask guest {name}")));
    }
    Ok(counts)
}

/// Returns the program of Frevo. It and `frevo-bench` beside it are built unless `FREVO` names one.
fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("FREVO") {
        return fs::canonicalize(&path).with_context(|| format!("FREVO={}", path.display()));
    }
    let built = crate::steps::cargo(&["build", "--quiet", "--release", "-p", "frevo", "-p", "bench"]).status();
    ensure!(built.context("cannot start cargo")?.success(), "frevo does not build");
    Ok(crate::root().join("target/release/frevo"))
}

/// Runs one script in a guest, and compares its results with the expectation.
fn script(name: &str, program: &Path, options: &Options) -> Result<Counts> {
    let dir = tempfile::Builder::new().prefix("frevo-guest-").tempdir_in("/var/tmp")?;
    let shared = dir.path().join("shared");
    fs::create_dir(&shared)?;
    let line = format!(
        "export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root RESULTS=/run/guest/results\n\
         export TARGET={} FREVO='{}' ONLY='{}'\n\
         ip link set lo up\n\
         sh '{}'\n\
         echo $? >/run/guest/status\n\
         sync\n\
         echo o >/proc/sysrq-trigger\n\
         while :; do sleep 1; done\n",
        options.target.name(),
        program.display(),
        options.only,
        folder().join(name).with_extension("sh").display(),
    );
    fs::write(shared.join("start"), line)?;
    fs::write(shared.join("results"), "")?;
    let mut guest = boot(dir.path(), options)?;
    let log = crate::root().join("target/guest").join(name).with_extension("log");
    let ended = watch(&mut guest, &log, Duration::from_secs(options.minutes * 60));
    guest.kill().ok();
    guest.wait()?;
    ended.with_context(|| format!("{name}; {} has the output", log.display()))?;
    let results = fs::read_to_string(shared.join("results"))?;
    let mut counts = compare(&results, &expected_failures(options.target)?, name, options.only.is_empty());
    let status = fs::read_to_string(shared.join("status")).unwrap_or_default();
    if status.trim() != "0" {
        counts.add(Counts::failed(format!(
            "{name}: exit status {:?}; {} has the output",
            status.trim(),
            log.display()
        )));
    }
    Ok(counts)
}

/// Starts the guest.
fn boot(dir: &Path, options: &Options) -> Result<Child> {
    let version = initramfs::version(options.kernel.as_deref())?;
    let (archive, disk) = (dir.join("initramfs"), dir.join("disk"));
    initramfs::write(&version, &dir.join("content"), &archive)?;
    fs::File::create(&disk)?.set_len(DISK)?;
    let made = Command::new("/sbin/mkfs.ext4").args(["-q", "-F"]).arg(&disk).status().context("mkfs.ext4")?;
    ensure!(made.success(), "mkfs.ext4 failed ({made})");
    println!("   Linux {version}");
    let shared = |path: &Path, tag: &str, more: &str| {
        format!("local,path={},mount_tag={tag},security_model=none{more}", path.display())
    };
    Command::new("qemu-system-x86_64")
        .args(["-accel", if options.kvm { "kvm" } else { "tcg,thread=multi" }, "-cpu", "max", "-smp", "2"])
        .args(["-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio"])
        .args(["-m", &options.memory.to_string()])
        .arg("-kernel")
        .arg(initramfs::kernel(&version))
        .arg("-initrd")
        .arg(&archive)
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .arg("-drive")
        .arg(format!("file={},if=virtio,format=raw,cache=unsafe", disk.display()))
        .arg("-virtfs")
        .arg(shared(Path::new("/"), "host", ",readonly=on,multidevs=remap"))
        .arg("-virtfs")
        .arg(shared(&dir.join("shared"), "guest", ""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start qemu-system-x86_64; install the package qemu-system-x86")
}

/// Prints what the guest writes, and keeps it in a file, until the guest ends.
fn watch(guest: &mut Child, log: &Path, patience: Duration) -> Result<()> {
    fs::create_dir_all(log.parent().context("a log without a directory")?)?;
    let mut console = guest.stdout.take().context("the guest has no console")?;
    let mut file = fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = console.read(&mut buffer) {
            use std::io::Write;
            let text = buffer.get(..length).unwrap_or_default();
            file.write_all(text).and_then(|()| std::io::stdout().write_all(text)).ok();
            std::io::stdout().flush().ok();
        }
    });
    let start = Instant::now();
    while guest.try_wait()?.is_none() {
        interrupt::check()?;
        if start.elapsed() > patience {
            bail!("the guest did not end within {} minutes", patience.as_secs() / 60);
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns the checks that are expected to fail, with the reasons.
fn expected_failures(target: Target) -> Result<BTreeMap<String, String>> {
    if target == Target::Samba {
        return Ok(BTreeMap::new());
    }
    Ok(expected::entries(&expected::list(expected::GUEST))?.into_iter().collect())
}

/// Compares the lines of results with the expectation. `complete` says that no check was left out.
fn compare(results: &str, expected: &BTreeMap<String, String>, script: &str, complete: bool) -> Counts {
    let mut counts = Counts::default();
    let mut seen = Vec::new();
    for line in results.lines() {
        let Some((verdict, check)) = line.split_once(' ') else { continue };
        let name = format!("{script}.{check}");
        counts.add(match (verdict, expected.get(&name)) {
            ("ok", None) => Counts::passed(1),
            ("ok", Some(_)) => Counts::failed(format!("{name}: passes: remove it from expected-failures/guest.txt")),
            (_, None) => Counts::failed(name.clone()),
            (_, Some(reason)) => {
                println!("{name}: expected failure: {reason}");
                Counts::default()
            }
        });
        seen.push(name);
    }
    let start = format!("{script}.");
    let missing = expected.keys().filter(|name| complete && name.starts_with(&start) && !seen.contains(name));
    missing.for_each(|name| counts.add(Counts::failed(format!("{name}: is listed as a failure and did not run"))));
    if seen.is_empty() {
        counts.add(Counts::failed(format!("{script}: no check was run")));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_failures_are_expected() {
        let expected = BTreeMap::from([("s.a".to_owned(), "why".to_owned()), ("t.a".to_owned(), "why".to_owned())]);
        assert_eq!(compare("ok b\nfailed a\n", &expected, "s", true), Counts::passed(1));
        assert_eq!(compare("ok b\nok a\n", &expected, "s", true).failed.len(), 1);
        assert_eq!(compare("failed b\nfailed a\n", &expected, "s", true).failed.len(), 1);
        assert_eq!(compare("ok b\n", &expected, "s", true).failed.len(), 1, "the listed check did not run");
        assert_eq!(compare("ok b\n", &expected, "s", false), Counts::passed(1));
        assert_eq!(compare("", &BTreeMap::new(), "s", true).failed.len(), 1, "nothing was run");
    }

    #[test]
    fn listed_failures_belong_to_scripts() {
        for name in expected_failures(Target::Frevo).unwrap().keys() {
            let script = name.split('.').next().unwrap();
            assert!(names().unwrap().iter().any(|known| known == script), "expected-failures/guest.txt: {name}");
        }
    }
}

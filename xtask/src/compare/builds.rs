//! `cargo xtask bench-builds`: builds Frevo in several ways, and measures the servers alternately with `frevo-bench`.
//! The profile `dist` in `Cargo.toml` follows from its results, which are in `docs/performance.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use test_environment::{Counts, Health, OtherBuild, Target, interrupt};

use super::cells::{self, Cell, Share, Side, share};
use super::outcome::Outcome;
use super::{build_bench, default_dir, measured, watched};
use crate::setup::{self, Set};
use crate::steps::{cargo, succeeds};
use crate::torture::place::{CUBIC, own_network_with};

/// A way to build and start the server.
struct Build {
    name: &'static str,
    how: &'static str,
    /// Its profile. Builds with the same one share the compiled dependencies.
    profile: &'static str,
    /// Further arguments of the compiler for Frevo's own crates. Compiling all dependencies anew for each build would
    /// take minutes.
    flags: &'static str,
    /// The library with another allocator, relative to the directory of libraries, and its Debian package.
    allocator: Option<(&'static str, &'static str)>,
}

/// The profiles of `Cargo.toml`, and one that is made from the second.
const RELEASE: &str = "release";
const THIN: &str = "dist";
const FAT: &str = "fat";
/// The name of the build that uses a profile of the build [`TRAINING`].
const PGO: &str = "pgo";
/// What stands for the path of the profile in the arguments of the compiler.
const PROFILE: &str = "@PROFILE@";

/// The builds. The first one is what `cargo build --release` makes.
const BUILDS: [Build; 8] = [
    build("release", "generic x86-64, without LTO", RELEASE, ""),
    build("thin", "thin LTO, one codegen unit", THIN, ""),
    build("fat", "fat LTO, one codegen unit", FAT, ""),
    build("v3", "as thin, for x86-64-v3", THIN, "-Ctarget-cpu=x86-64-v3"),
    build("native", "as thin, for the processor of this machine", THIN, "-Ctarget-cpu=native"),
    build(PGO, "as thin, with a profile of the same experiments", THIN, "-Cprofile-use=@PROFILE@"),
    Build {
        allocator: Some(("libjemalloc.so.2", "libjemalloc2")),
        ..build("jemalloc", "as thin, with the allocator jemalloc", THIN, "")
    },
    Build {
        allocator: Some(("libmimalloc.so.2", "libmimalloc2.0")),
        ..build("mimalloc", "as thin, with the allocator mimalloc", THIN, "")
    },
];

/// The build that writes a profile.
const TRAINING: Build = build("training", "writes a profile", THIN, "-Cprofile-generate");

const fn build(name: &'static str, how: &'static str, profile: &'static str, flags: &'static str) -> Build {
    Build { name, how, profile, flags, allocator: None }
}

/// What is measured by default.
const EXPERIMENTS: [&str; 3] = ["netbench", "smallfile", "largefile"];
const SHARES: [Share; 1] = [share("plain", "plain", &[])];

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Experiments of frevo-bench [default: netbench, smallfile, largefile]
    experiments: Vec<String>,
    /// Builds to compare: release, thin, fat, v3, native, pgo, jemalloc, mimalloc [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    builds: Vec<String>,
    /// Small sizes and short rounds, for a quick look
    #[arg(long)]
    quick: bool,
    /// Directory for the results [default: bench-runs/DATE-MACHINE]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Directory on the file system to measure on [default: $TMPDIR or /var/tmp]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Further arguments for frevo-bench, after --
    #[arg(last = true)]
    bench: Vec<String>,
}

/// Runs the command. Returns how many experiments succeeded, and which failed.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    ensure!(std::env::var_os("FREVO").is_none(), "bench-builds builds its own servers; unset FREVO");
    let builds = chosen(&options.builds)?;
    let experiments: Vec<&str> = match &options.experiments[..] {
        [] => EXPERIMENTS.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let dir = default_dir(options.dir.as_deref())?;
    setup::run(Set::Compare)?;
    build_bench()?;
    // Cargo needs the network that it is started in.
    let trained = builds.iter().any(|build| build.name == PGO);
    if trained {
        println!("building {}: {}", TRAINING.name, TRAINING.how);
        TRAINING.build(None)?;
        train(&dir, &experiments)?;
    }
    for build in &builds {
        println!("building {}: {}", build.name, build.how);
        build.build(trained.then(profile).as_deref())?;
    }
    own_network_with(CUBIC)?;
    measure(options, &dir, &builds, &experiments)
}

/// Returns the builds with these names, or all.
fn chosen(names: &[String]) -> Result<Vec<&'static Build>> {
    for name in names {
        let known = BUILDS.map(|build| build.name);
        ensure!(known.contains(&&**name), "no such build: {name:?}; use {}", known.join(", "));
    }
    Ok(BUILDS.iter().filter(|build| names.is_empty() || names.iter().any(|name| name == build.name)).collect())
}

/// The directory of all builds.
fn directory() -> PathBuf {
    crate::root().join("target/builds")
}

/// The profile that the training build wrote.
fn profile() -> PathBuf {
    directory().join("frevo.profdata")
}

impl Build {
    /// Builds the program and copies it to [`built`](Self::built).
    fn build(&self, profile: Option<&Path>) -> Result<()> {
        let mut command = cargo(&["build", "--quiet", "--package", "frevo", "--bin", "frevo"]);
        command.arg("--target-dir").arg(directory()).args(["--profile", self.profile]);
        for setting in [r#"inherits="dist""#, r#"lto="fat""#] {
            command.arg("--config").arg(format!("profile.{FAT}.{setting}"));
        }
        if !self.flags.is_empty() {
            command.env("RUSTC_WORKSPACE_WRAPPER", self.compiler(profile)?);
        }
        // Build scripts of the training build write one too.
        command.env("LLVM_PROFILE_FILE", directory().join("scripts.profraw"));
        ensure!(succeeds(command)?.failed.is_empty(), "{} does not build; see the errors above", self.name);
        let (from, to) = (directory().join(self.profile).join("frevo"), self.built());
        fs::copy(&from, &to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        Ok(())
    }

    /// Writes a script that calls the compiler with the further arguments, and returns its path.
    fn compiler(&self, profile: Option<&Path>) -> Result<PathBuf> {
        let (mut name, mut flags) = (format!("rustc-{}", self.name), self.flags.to_owned());
        if let Some(profile) = profile.filter(|_| flags.contains(PROFILE)) {
            // Cargo builds again for a script of another name, but not for a profile with other content.
            let time = fs::metadata(profile)?.modified()?.duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
            name = format!("{name}-{time}");
            flags = flags.replace(PROFILE, &profile.display().to_string());
        }
        script(&name, &format!("exec \"$@\" {flags}"))
    }

    /// The program.
    fn built(&self) -> PathBuf {
        directory().join(format!("frevo-{}", self.name))
    }

    /// Returns the program that starts this build: the built one, or a script that sets an environment variable for it.
    fn program(&self) -> Result<PathBuf> {
        let Some((library, package)) = self.allocator else {
            return Ok(self.built());
        };
        let path = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH)).join(library);
        ensure!(path.exists(), "{} is missing; install the Debian package {package}", path.display());
        with_variable(self, &format!("LD_PRELOAD={}", path.display()))
    }

    /// Starts a server of this build.
    fn start(&self, dir: &Path) -> Result<Side> {
        let _program = OtherBuild::new(self.program()?);
        Side::start(dir, Target::Frevo, self.name, "", &SHARES)
    }
}

/// Writes a script that starts a build with an environment variable.
fn with_variable(build: &Build, variable: &str) -> Result<PathBuf> {
    let line = format!("exec env '{variable}' '{}' \"$@\"", build.built().display());
    script(&format!("{}-server", build.name), &line)
}

/// Writes a shell script with one line.
fn script(name: &str, line: &str) -> Result<PathBuf> {
    fs::create_dir_all(directory())?;
    let path = directory().join(name);
    fs::write(&path, format!("#!/bin/sh\n{line}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Runs the experiments briefly on the training build, and stores the profile.
fn train(dir: &Path, experiments: &[&str]) -> Result<()> {
    let raw = directory().join("raw");
    if raw.exists() {
        fs::remove_dir_all(&raw).with_context(|| format!("cannot remove {}", raw.display()))?;
    }
    fs::create_dir_all(&raw)?;
    let variable = format!("LLVM_PROFILE_FILE={}/%p.profraw", raw.display());
    let program = with_variable(&TRAINING, &variable)?;
    let mut side = {
        let _program = OtherBuild::new(program);
        // The sandbox would refuse to write the profile.
        Side::start(dir, Target::Frevo, TRAINING.name, "\tfrevo:sandbox = no\n", &SHARES)?
    };
    for experiment in experiments {
        let record = directory().join("training.json");
        let mut command = cells::command(experiment, &cells(&[&side]), &record)?;
        println!("\n== {experiment} on the training build");
        watched(command.arg("--quick"))?;
    }
    side.server.stop();
    let files: Vec<PathBuf> = fs::read_dir(&raw)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    ensure!(!files.is_empty(), "the training build wrote no profile to {}", raw.display());
    let mut merge = Command::new(profdata()?);
    merge.arg("merge").arg("-o").arg(profile()).args(&files);
    ensure!(merge.status().context("cannot start llvm-profdata")?.success(), "llvm-profdata failed");
    Ok(())
}

/// Returns the path of the compiler's `llvm-profdata`.
fn profdata() -> Result<PathBuf> {
    let out = Command::new("rustc").args(["--print", "target-libdir"]).output().context("cannot start rustc")?;
    let libraries = PathBuf::from(String::from_utf8(out.stdout)?.trim());
    let path = libraries.parent().unwrap_or(&libraries).join("bin/llvm-profdata");
    ensure!(path.exists(), "{} is missing; run `rustup component add llvm-tools`", path.display());
    Ok(path)
}

fn cells(sides: &[&Side]) -> Vec<Cell> {
    sides.iter().filter_map(|side| side.cell(SHARES[0].store)).collect()
}

/// Runs the experiments on one server of each build, all of which are started anew for each experiment.
fn measure(options: &Options, dir: &Path, builds: &[&Build], experiments: &[&str]) -> Result<Counts> {
    let mut outcome = Outcome::make(options.out.as_deref())?;
    let mut counts = Counts::default();
    for (number, experiment) in (1..).zip(experiments) {
        let mut sides = builds.iter().map(|build| build.start(dir)).collect::<Result<Vec<Side>>>()?;
        let json = outcome.json(experiment);
        let mut command = cells::command(experiment, &cells(&sides.iter().collect::<Vec<_>>()), &json)?;
        if options.quick {
            command.arg("--quick");
        }
        let done = measured(&mut command, experiment, &json, &options.bench, &mut outcome);
        for side in &mut sides {
            let how = side.server.health()?;
            ensure!(how == Health::Well, "{} is {how:?}:\n{}", side.name, side.server.log_tail());
        }
        match done {
            Ok(()) => counts.passed += 1,
            Err(_) if interrupt::interrupted() => {}
            Err(error) => counts.add(Counts::failed(format!("{experiment}: {error:#}"))),
        }
        if number == experiments.len() || interrupt::interrupted() {
            let servers: Vec<_> = sides.iter().map(|side| (side.name, &side.server)).collect();
            outcome.finish(&servers)?;
            break;
        }
    }
    interrupt::check()?;
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_chosen_by_name() {
        let names = |chosen: Vec<&Build>| chosen.iter().map(|build| build.name).collect::<Vec<_>>();
        assert_eq!(names(chosen(&[]).unwrap()).len(), BUILDS.len());
        assert_eq!(names(chosen(&["pgo".into(), "release".into()]).unwrap()), ["release", "pgo"]);
        assert!(chosen(&["o3".into()]).is_err());
    }
}

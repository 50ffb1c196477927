//! The servers for the ACL experiments: Frevo with and without an ACL cache, each with a share for every policy of
//! storing converted descriptors, and Samba. All run at the same time, so that `frevo-bench` can alternate between
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use test_environment::{ALICE, Crowd, Health, Server, Target, TestEnvironment};

use super::outcome::Outcome;
use super::pair::TEMPLATE;
use super::{Options, frevo_bench, measured, short};

/// A share: the name of its storage policy, its share name, and its configuration lines.
pub(super) struct Share {
    pub(super) store: &'static str,
    name: &'static str,
    lines: &'static [&'static str],
}

pub(super) const fn share(store: &'static str, name: &'static str, lines: &'static [&'static str]) -> Share {
    Share { store, name, lines }
}

const ACLS: &str = "vfs objects = acl_xattr";

/// Frevo's shares, with the study's policies as Frevo settings.
const FREVO: [Share; 8] = [
    share("posix", "posix", &[]),
    share("#0", "all", &[ACLS, "frevo:acl store = always"]),
    share("#1", "from4", &[ACLS, "frevo:acl store = >= 4"]),
    share("#2", "from6", &[ACLS, "frevo:acl store = >= 6"]),
    share("#3", "from6to34", &[ACLS, "frevo:acl store = 6-34"]),
    // The default setting, as proposed.
    share("auto", "auto", &[ACLS]),
    share("always", "always", &[ACLS, "frevo:acl store = always"]),
    share("never", "never", &[ACLS, "frevo:acl store = never"]),
];

/// Samba's shares. Samba stores only what clients set, and has no ACL cache.
const SAMBA: [Share; 2] = [share("posix", "posix", &[]), share("acl_xattr", "acl", &[ACLS])];

/// A server with its shares.
pub(super) struct Side {
    // Declared before the environment, so that the server ends before its directory is removed.
    pub(super) server: Server,
    environment: TestEnvironment,
    /// Prefix of its cells' names, such as `frevo/c`.
    pub(super) name: &'static str,
    shares: &'static [Share],
}

impl Side {
    pub(super) fn start(
        dir: &Path,
        target: Target,
        name: &'static str,
        globals: &str,
        shares: &'static [Share],
    ) -> Result<Side> {
        let environment = TestEnvironment::make_in(dir, target, Crowd(0))?;
        for share in shares {
            environment.make_dir(share.name, &ALICE, 0o777)?;
        }
        let server = environment.start("server", &template(globals, shares));
        let server = server.with_context(|| format!("{name} does not start"))?;
        Ok(Side { server, environment, name, shares })
    }

    /// Returns the cell of the share with this storage policy.
    pub(super) fn cell(&self, store: &str) -> Option<Cell> {
        let share = self.shares.iter().find(|share| share.store == store)?;
        Some(Cell {
            name: format!("{}/{store}", self.name),
            url: format!("smb://{}:{}@{}/{}", ALICE.name, ALICE.password, self.server.address(), share.name),
            path: self.environment.dir().join(share.name),
            pid: self.server.pid(),
            conf: self.server.conf().to_owned(),
        })
    }
}

/// Builds the configuration: the part that `compare` uses for every server, the server's own settings, and its shares.
fn template(globals: &str, shares: &[Share]) -> String {
    let mut text = TEMPLATE.split("\n[plain]").next().unwrap_or_default().to_owned();
    text.push_str(globals);
    for share in shares {
        text.push_str(&format!("\n[{0}]\n\tpath = @DIR@/{0}\n", share.name));
        share.lines.iter().for_each(|line| text.push_str(&format!("\t{line}\n")));
    }
    text
}

/// A share in the form that `frevo-bench` needs.
pub(super) struct Cell {
    name: String,
    url: String,
    path: PathBuf,
    pid: u32,
    conf: PathBuf,
}

/// The servers of the experiments.
struct Cells {
    cached: Side,
    bare: Side,
    samba: Side,
}

impl Cells {
    fn start(dir: &Path) -> Result<Cells> {
        Ok(Cells {
            cached: Side::start(dir, Target::Frevo, "frevo/c", "", &FREVO)?,
            bare: Side::start(dir, Target::Frevo, "frevo/n", "\tfrevo:acl cache = 0\n", &FREVO)?,
            samba: Side::start(dir, Target::Samba, "samba/n", "", &SAMBA)?,
        })
    }

    /// Returns the cells of an experiment.
    fn of(&self, experiment: &str, alone: bool) -> Vec<Cell> {
        const STORES: [&str; 6] = ["posix", "#0", "#1", "#2", "#3", "auto"];
        let of = |sides: &[(&Side, &[&str])]| -> Vec<Cell> {
            sides.iter().flat_map(|(side, stores)| stores.iter().filter_map(|store| side.cell(store))).collect()
        };
        match experiment {
            "acl check" => of(&[
                (&self.bare, &["never", "always"]),
                (&self.cached, &["never", "always"]),
                (&self.samba, &["acl_xattr"]),
            ]),
            "acl mix" => of(&[(&self.bare, &STORES), (&self.cached, &STORES), (&self.samba, &["posix", "acl_xattr"])]),
            _ if alone => of(&[(&self.cached, &["#0"])]),
            _ => of(&[(&self.cached, &["#0"]), (&self.samba, &["acl_xattr"])]),
        }
    }

    fn sides(&mut self) -> [&mut Side; 3] {
        [&mut self.cached, &mut self.bare, &mut self.samba]
    }
}

/// Runs an experiment on its own servers in `dir`. The access check is run with warm and with cold caches.
pub(super) fn run(options: &Options, dir: &Path, experiment: &str, outcome: &mut Outcome) -> Result<()> {
    let mut cells = Cells::start(dir)?;
    // With a million files, a server needs minutes, and a slower one an hour.
    let alone = options.bench.iter().any(|word| word.starts_with("--files"));
    let titles: &[(&str, &[&str])] = match experiment {
        "acl check" => &[("acl check", &[]), ("acl check cold", &["--cold"])],
        _ => &[("", &[])],
    };
    for (title, own) in titles {
        let title = if title.is_empty() { experiment } else { title };
        let json = outcome.json(title);
        let mut command = command(experiment, &cells.of(experiment, alone), &json)?;
        command.args(*own);
        if options.quick {
            command.arg("--quick");
        }
        let done = measured(&mut command, title, &json, &options.bench, outcome);
        for side in cells.sides() {
            let name = format!("acl-{}-smb.conf", side.name.replace('/', "-"));
            outcome.keep(&name, side.server.conf())?;
            let how = side.server.health()?;
            anyhow::ensure!(how == Health::Well, "{} is {how:?}:\n{}", side.name, side.server.log_tail());
        }
        done?;
    }
    Ok(())
}

pub(super) fn command(experiment: &str, cells: &[Cell], json: &Path) -> Result<Command> {
    let mut command = frevo_bench();
    command.args(experiment.split(' '));
    command.args(["--json", &short(&json.to_string_lossy())]);
    for (number, cell) in cells.iter().enumerate() {
        let Cell { name, url, path, pid, conf } = cell;
        if number == 0 {
            command.args(["--target", url, "--name", name, "--server-pid", &pid.to_string()]);
            command.arg("--share-path").arg(path).arg("--conf").arg(conf);
        } else {
            // Each configuration is passed once.
            let known = cells[..number].iter().any(|cell| cell.conf == *conf);
            let conf = if known { String::new() } else { format!(",conf={}", conf.display()) };
            command.args(["--more", &format!("{name}={url},path={},pid={pid}{conf}", path.display())]);
        }
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_policy_of_its_name() {
        let text = template("\tfrevo:acl cache = 0\n", &FREVO);
        assert!(text.contains("[global]\n@TARGET@") && !text.contains("[plain]"));
        let (globals, shares) = text.split_once("\n[posix]\n\tpath = @DIR@/posix\n").unwrap();
        assert!(globals.ends_with("frevo:acl cache = 0\n"));
        assert!(
            shares.contains("[from6]\n\tpath = @DIR@/from6\n\tvfs objects = acl_xattr\n\tfrevo:acl store = >= 6\n")
        );
    }

    #[test]
    fn a_configuration_is_recorded_once() {
        let cell = |name: &str, conf: &str| Cell {
            name: name.into(),
            url: "smb://a:b@127.0.0.1:1/s".into(),
            path: "/p".into(),
            pid: 7,
            conf: conf.into(),
        };
        let cells = [cell("f/n/posix", "/1"), cell("f/n/#0", "/1"), cell("f/c/#0", "/2"), cell("f/c/#1", "/2")];
        let command = command("acl mix", &cells, Path::new("/j")).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(words[..4], ["acl", "mix", "--json", "/j"]);
        assert_eq!(words[words.len() - 5], "f/n/#0=smb://a:b@127.0.0.1:1/s,path=/p,pid=7");
        assert!(words[words.len() - 3].ends_with(",conf=/2") && !words[words.len() - 1].contains("conf"));
    }
}

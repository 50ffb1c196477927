//! What the console shows and changes, through the control socket of the running server.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Instant;

use accounts::record::{check_name, nt_hash};
use accounts::state_dir::StateDir;
use anyhow::{Context, Result, bail};
use console::{Administration, Caller, LogonError, Sample};
use parking_lot::Mutex;
use serde_json::{Value, json};
use smbconf::added::Change;
use zeroize::Zeroizing;

use super::benchmark::{Benchmark, Benchmarks, Kind};
use super::cost::Costs;
use super::numbers::{Numbers, SERIES};
use super::password::Passwords;
use super::requests::{
    ChangedShare, Closed, Enabled, Former, Located, Named, NewAcl, NewBenchmark, NewPassword, NewShare, NewUser,
    Position, Restored, RestoredVersion, arguments_of, place_of,
};
use crate::acl::files::{Files, MayReplace};
use crate::admin::Client;
use crate::admin::message::{Closing, OnBehalf, ServerRequest, ShareReply, ShareRequest, UserReply, UserRequest};
use crate::health::Report;
use crate::share;
use crate::status::{HeldResources, Status};

/// Maximum number of sessions, of tree connects, of opens and of locks that the page gets.
const SHOWN: usize = 1000;
/// Maximum number of accounts that the page gets at once.
const ACCOUNTS: usize = 500;

/// The running server.
pub(super) struct Server {
    state: PathBuf,
    config: Option<PathBuf>,
    pub(super) passwords: Passwords,
    /// The latest numbers, and when they were read.
    latest: Mutex<Option<(Instant, Numbers)>>,
    costs: Costs,
    benchmarks: Benchmarks,
}

impl Server {
    pub(super) fn new(state: PathBuf, config: Option<PathBuf>, passwords: Passwords) -> Server {
        Server {
            state,
            config,
            passwords,
            latest: Mutex::default(),
            costs: Costs::default(),
            benchmarks: Benchmarks::default(),
        }
    }

    pub(super) fn client(&self) -> Result<Client> {
        let client = StateDir::open(&self.state)?.map(|state| Client::connect(&state)).transpose()?.flatten();
        client.with_context(|| format!("no server runs with the state directory {}", self.state.display()))
    }

    fn numbers(&self) -> Result<Numbers> {
        let text: String = self.client()?.ask(&ServerRequest::Metrics {})?;
        Ok(Numbers::of(&text))
    }

    fn verify(&self, caller: &Caller, password: &str) -> Result<Option<String>> {
        let Caller { name, address } = caller;
        // A UNIX socket has no address.
        let address: Option<IpAddr> = address.parse().ok();
        let by_pam = self.passwords.verified(name, password, address);
        if let Ok(Some(name)) = by_pam {
            return Ok(Some(name));
        }
        // An account may have the name of a UNIX administrator that PAM does not answer for.
        match (by_pam, self.verified_by_server(name, password, address)) {
            (_, Ok(Some(name))) => Ok(Some(name)),
            (Err(error), _) => Err(error),
            (Ok(_), other) => other,
        }
    }

    /// Verifies the password of an account in `admin users`. For others, the server does not count it.
    fn verified_by_server(&self, name: &str, password: &str, address: Option<IpAddr>) -> Result<Option<String>> {
        // Neither a password that no account can have nor a name is worth a question.
        let (Ok(hash), Ok(())) = (nt_hash(password), check_name(name)) else { return Ok(None) };
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        self.client()?.ask(&ServerRequest::LogOn { name: name.to_owned(), nt_hash: Some(hash), address })
    }

    /// Has the server record something that it does not do itself.
    pub(super) fn note(&self, caller: &Caller, operation: &str, arguments: Vec<String>, failure: Option<String>) {
        tracing::info!(user = caller.name, address = caller.address, operation, failure, "console");
        let noted = self.client().and_then(|mut client| {
            client.on_behalf(behalf(caller, operation, arguments))?;
            // The answer repeats the failure.
            let _ = client.ask::<()>(&ServerRequest::Note { failure });
            Ok(())
        });
        if let Err(error) = noted {
            tracing::error!("cannot record {operation} of {:?}: {error:#}", caller.name);
        }
    }

    fn overview(&self) -> Result<Value> {
        let numbers = self.numbers()?;
        let held: HeldResources = self.client()?.ask(&ServerRequest::Held {})?;
        let mut overview = numbers.overview();
        overview["costs"] = self.costs.json(Instant::now());
        overview["held"] = serde_json::to_value(held)?;
        overview["taken"] = json!(now());
        overview["host"] = json!(smbconf::host::host_name());
        Ok(overview)
    }

    fn clients(&self) -> Result<Value> {
        let status: Status = self.client()?.ask(&ServerRequest::Clients { most: SHOWN })?;
        // What is not counted exactly, such as a pipe among the opens, counts only if not all are shown.
        let total = |name: &str, shown: usize| match shown {
            SHOWN => status.held.total(name).unwrap_or(SHOWN as u64),
            shown => shown as u64,
        };
        let total = json!({
            "sessions": total("sessions", status.sessions.len()),
            "opens": total("opens", status.opens.len()),
            "locks": total("locks", status.locks.len()),
        });
        let mut value = serde_json::to_value(status)?;
        value["total"] = total;
        Ok(value)
    }

    fn users(&self, position: Position) -> Result<Value> {
        let after = position.after();
        let UserReply::List(mut accounts) = self.client()?.user(&UserRequest::List { after })? else {
            return unexpected();
        };
        let more = accounts.len() > ACCOUNTS;
        accounts.truncate(ACCOUNTS);
        Ok(json!({ "accounts": accounts, "more": more }))
    }

    fn shares(&self) -> Result<Value> {
        let request = ServerRequest::Shares { what: ShareRequest::List {} };
        let ShareReply::List(shares) = self.client()?.ask(&request)? else { return unexpected() };
        Ok(serde_json::to_value(shares)?)
    }

    fn health(&self) -> Result<Value> {
        let report: Report = self.client()?.ask(&ServerRequest::Health {})?;
        let fault = |fault: &crate::health::Fault| json!({ "fault": fault.name(), "text": fault.to_string() });
        let faults: Vec<_> = report.faults.iter().map(fault).collect();
        Ok(json!({ "live": report.live, "ready": report.ready, "faults": faults }))
    }

    fn check(&self) -> Result<Value> {
        crate::check::report(self.config.clone().context("the server has no configuration file")?)
    }

    fn share(&self, caller: &Caller, operation: &str, change: Change) -> Result<String> {
        let (settings, done) = match &change {
            Change::Add { settings, .. } => {
                (settings.iter().map(|(name, value)| format!("{name}={value}")).collect(), "added")
            }
            Change::Set { settings, .. } => {
                let shown =
                    |(name, value): &(String, Option<String>)| format!("{name}={}", value.as_deref().unwrap_or(""));
                (settings.iter().map(shown).collect(), "changed")
            }
            Change::Remove { .. } => (Vec::new(), "removed"),
        };
        let done = format!("share {} {done}", change.name());
        let mut client = self.client()?;
        let arguments = std::iter::once(change.name().to_owned()).chain(settings).collect();
        client.on_behalf(behalf(caller, operation, arguments))?;
        let _: ShareReply = client.ask(&ServerRequest::Shares { what: ShareRequest::Change(change) })?;
        Ok(done)
    }

    /// Makes a change of accounts, which is recorded with the arguments.
    pub(super) fn user(
        &self,
        caller: &Caller,
        operation: &str,
        arguments: Vec<String>,
        request: &UserRequest,
    ) -> Result<String> {
        let mut client = self.client()?;
        client.on_behalf(behalf(caller, operation, arguments))?;
        let UserReply::Done(note) = client.user(request)? else { return unexpected() };
        Ok(note.map(|note| format!("done; note: {note}")).unwrap_or_else(|| "done".to_owned()))
    }

    /// Does something with the files of a share, of a server that runs.
    fn files<T>(&self, share: &str, work: impl AsyncFnOnce(&Files) -> Result<T>) -> Result<T> {
        self.client()?;
        let files = Files::open(self.config.clone(), Some(self.state.clone()), share)?;
        tokio::runtime::Handle::current().block_on(work(&files))
    }

    /// Fails if a client has the file with this device and inode open, because it would go on to use the former file.
    fn check_is_closed(&self, (device, inode): (u64, u64)) -> Result<()> {
        let status: Status = self.client()?.ask(&ServerRequest::Status {})?;
        match status.opens.iter().find(|open| (open.device, open.inode) == (device, inode)) {
            Some(open) => {
                bail!("a client has {} in {} open; close it on the page of clients first", open.path, open.share)
            }
            None => Ok(()),
        }
    }

    /// Changes files of a share. The server learns of it before, and records it if the result does not arrive. A change
    /// during which the server stops is not recorded.
    fn change_files(
        &self,
        caller: &Caller,
        operation: &str,
        share: &str,
        arguments: &[&str],
        work: impl AsyncFnOnce(&Files) -> Result<()>,
    ) -> Result<String> {
        let arguments = std::iter::once(share).chain(arguments.iter().copied()).map(str::to_owned).collect();
        self.recorded(caller, operation, arguments, || self.files(share, work)).map(|()| "done".to_owned())
    }

    /// Does something that the server does not do itself. The server learns of it before, and records it if the result
    /// does not arrive.
    fn recorded<T>(
        &self,
        caller: &Caller,
        operation: &str,
        arguments: Vec<String>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut client = self.client()?;
        client.on_behalf(behalf(caller, operation, arguments))?;
        let done = work();
        let failure = done.as_ref().err().map(|error| format!("{error:#}"));
        // The answer repeats the failure.
        if let Err(error) = client.ask::<()>(&ServerRequest::Note { failure: failure.clone() })
            && failure.is_none_or(|failure| failure != error.to_string())
        {
            tracing::error!("cannot record the result of {operation} of {:?}: {error:#}", caller.name);
        }
        done
    }

    /// Starts a benchmark of a share. Its directory must not exist, because the program would remove it.
    fn start_benchmark(&self, caller: &Caller, operation: &str, new: NewBenchmark) -> Result<String> {
        let NewBenchmark { share, kind, user, password, port } = new;
        let (kind, password) = (Kind::of(&kind)?, Zeroizing::new(password));
        let arguments = [share.as_str(), kind.directory(), &user].map(str::to_owned).into();
        self.recorded(caller, operation, arguments, || {
            let program = crate::bench::program()?;
            let check = || {
                let directory = kind.directory();
                match self.files(&share, async |files| files.exists(directory).await)? {
                    false => Ok(()),
                    true => {
                        bail!("[{share}] has a directory {directory}, which a benchmark would remove; remove it first")
                    }
                }
            };
            self.benchmarks.start(&program, Benchmark { share: share.clone(), kind, user, port }, &password, check)
        })?;
        Ok(format!("the benchmark of {share} has begun"))
    }

    /// Returns the benchmark that runs, the report of the last one, and what is needed for another one.
    fn benchmark(&self) -> Result<Value> {
        let mut shown = self.benchmarks.json();
        shown["missing"] = json!(crate::bench::program().err().map(|error| format!("{error:#}")));
        Ok(shown)
    }

    /// Ends what the console has started.
    pub(super) fn stop(&self) {
        let _ = self.benchmarks.stop();
    }

    fn perform(&self, caller: &Caller, name: &str, arguments: Value) -> Option<Result<String>> {
        Some(match name {
            "share.add" => arguments_of(arguments).and_then(|NewShare { name: share, path, comment, settings }| {
                let comment = Some(comment).filter(|comment| !comment.is_empty());
                let settings = share::parameters(Some(&path), comment, settings)?;
                self.share(caller, name, Change::Add { name: share, settings })
            }),
            "share.set" => arguments_of(arguments).and_then(|ChangedShare { name: share, path, comment, settings }| {
                let all = share::parameters(path.as_deref(), comment, settings)?;
                // A parameter without a value has its default again.
                let settings = all.into_iter().map(|(name, value)| (name, Some(value).filter(|it| !it.is_empty())));
                self.share(caller, name, Change::Set { name: share, settings: settings.collect() })
            }),
            "share.remove" => arguments_of(arguments)
                .and_then(|Named { name: share }| self.share(caller, name, Change::Remove { name: share })),
            "user.add" => arguments_of(arguments).and_then(|new: NewUser| {
                check_name(&new.name)?;
                let nt_hash = Some(nt_hash(&Zeroizing::new(new.password))?);
                let uid = new.uid.map(|uid| format!("uid={uid}"));
                let shown = [Some(new.name.clone()), uid].into_iter().flatten().collect();
                let request = UserRequest::Add { name: new.name, nt_hash, full_name: new.full_name, uid: new.uid };
                self.user(caller, name, shown, &request)
            }),
            "user.passwd" => arguments_of(arguments).and_then(|NewPassword { name: user, password }| {
                let nt_hash = Some(nt_hash(&Zeroizing::new(password))?);
                self.user(caller, name, vec![user.clone()], &UserRequest::Passwd { name: user, nt_hash })
            }),
            "user.enable" => arguments_of(arguments).and_then(|Enabled { name: user, enabled }| {
                let shown = vec![user.clone(), format!("enabled={enabled}")];
                self.user(caller, name, shown, &UserRequest::Enable { name: user, enabled })
            }),
            "user.delete" => arguments_of(arguments).and_then(|Named { name: user }| {
                self.user(caller, name, vec![user.clone()], &UserRequest::Delete { name: user })
            }),
            "close" => arguments_of(arguments).and_then(|Closed { kind, id }| {
                let number = || u64::from_str_radix(&id, 16).context("not an id");
                let what = match kind.as_str() {
                    "session" => Closing::Session(number()?),
                    "file" => Closing::File(number()?),
                    "share" => Closing::Share(id.clone()),
                    _ => bail!("only sessions, files and shares are closed"),
                };
                let mut client = self.client()?;
                client.on_behalf(behalf(caller, name, vec![kind, id]))?;
                client.ask(&ServerRequest::Close { what })
            }),
            "file.restore" => arguments_of(arguments).and_then(|Restored { share, from, to }| {
                let shown = [from.as_str(), &to];
                self.change_files(caller, name, &share, &shown, async |files| files.restore(&from, &to).await)
            }),
            "version.restore" => arguments_of(arguments).and_then(|version: RestoredVersion| {
                let RestoredVersion { share, path, moment, to, replace } = version;
                let (at, how) = (format!("snapshot={moment}"), format!("replace={replace}"));
                let shown = [path.as_str(), &at, &to, &how];
                let may_replace = |file| self.check_is_closed(file);
                let may_replace: Option<MayReplace<'_>> = replace.then_some(&may_replace);
                self.change_files(caller, name, &share, &shown, async |files| {
                    files.restore_version(&path, moment, &to, may_replace).await
                })
            }),
            "acl.set" => arguments_of(arguments).and_then(|NewAcl { share, path, sddl }| {
                let shown = [path.as_str(), &sddl];
                self.change_files(caller, name, &share, &shown, async |files| files.set_acl(&path, &sddl).await)
            }),
            "benchmark.start" => arguments_of(arguments).and_then(|new| self.start_benchmark(caller, name, new)),
            "benchmark.stop" => self
                .recorded(caller, name, Vec::new(), || self.benchmarks.stop())
                .map(|()| "the benchmark ends and removes its files".to_owned()),
            "reload" => self.client().and_then(|mut client| {
                client.on_behalf(behalf(caller, name, Vec::new()))?;
                client.ask(&ServerRequest::Reload {})
            }),
            _ => return None,
        })
    }
}

fn behalf(caller: &Caller, operation: &str, arguments: Vec<String>) -> OnBehalf {
    let Caller { name: user, address } = caller.clone();
    OnBehalf { user, address, operation: operation.to_owned(), arguments }
}

fn unexpected<T>() -> Result<T> {
    bail!("the server sent an unexpected answer; check that it has the same version")
}

pub(super) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Administration for Server {
    fn log_on(&self, caller: &Caller, password: &str) -> Result<String, LogonError> {
        let verified = self.verify(caller, password);
        let (outcome, failure) = match verified {
            Ok(Some(name)) => (Ok(name), None),
            Ok(None) => (Err(LogonError::Refused), Some("wrong password or not an administrator".to_owned())),
            Err(error) => (Err(LogonError::Unavailable(format!("{error:#}"))), Some(format!("{error:#}"))),
        };
        self.note(caller, "console.logon", Vec::new(), failure);
        outcome
    }

    fn logged_off(&self, caller: &Caller) {
        self.note(caller, "console.logoff", Vec::new(), None);
    }

    fn query(&self, name: &str, arguments: &Value) -> Option<Result<Value, String>> {
        let found = match name {
            "overview" => self.overview(),
            "clients" => self.clients(),
            "users" => place_of(arguments).and_then(|position| self.users(position)),
            "shares" => self.shares(),
            "health" => self.health(),
            "check" => self.check(),
            "benchmark" => self.benchmark(),
            "files" => place_of(arguments)
                .and_then(|Located { share, path }| self.files(&share, async |files| files.list(&path).await)),
            "versions" => place_of(arguments)
                .and_then(|Located { share, path }| self.files(&share, async |files| files.versions(&path).await)),
            "version" => place_of(arguments).and_then(|Former { share, path, moment }| {
                self.files(&share, async |files| files.list_version(&path, moment).await)
            }),
            "acl" => place_of(arguments)
                .and_then(|Located { share, path }| self.files(&share, async |files| files.acl(&path).await)),
            _ => return None,
        };
        Some(found.map_err(|error| format!("{error:#}")))
    }

    fn change(&self, caller: &Caller, name: &str, arguments: Value) -> Option<Result<Value, String>> {
        let done = self.perform(caller, name, arguments)?;
        tracing::info!(user = caller.name, address = caller.address, operation = name, done = done.is_ok(), "console");
        Some(done.map(Value::String).map_err(|error| format!("{error:#}")))
    }

    fn revoked(&self, name: &str, arguments: &Value) -> Option<String> {
        let loses = match name {
            "user.passwd" | "user.delete" => true,
            "user.enable" => arguments["enabled"] == false,
            _ => false,
        };
        arguments["name"].as_str().filter(|_| loses).map(str::to_owned)
    }

    fn series(&self) -> &'static [&'static str] {
        SERIES
    }

    fn sample(&self) -> Option<Sample> {
        let numbers = self.numbers().inspect_err(|error| tracing::debug!("{error:#}")).ok()?;
        let at = Instant::now();
        let before = self.latest.lock().replace((at, numbers.clone()));
        let (since, before) = before?;
        self.costs.add(at, numbers.cost(&before));
        let seconds = at.duration_since(since).as_secs_f64().max(0.001);
        Some(Sample { time: now(), values: numbers.sample(&before, seconds) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn server(directory: &std::path::Path) -> Server {
        let passwords = Passwords::new(Some("frevo-no-such".into()), Vec::new());
        Server::new(directory.join("state"), Some(directory.join("smb.conf")), passwords)
    }

    #[test]
    fn no_file_is_changed_without_a_server_that_records_it() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (share, letter) = (top.join("share"), top.join("share/letter"));
        fs::create_dir_all(share.join(".recycle")).unwrap();
        fs::write(share.join(".recycle/old"), "").unwrap();
        fs::write(&letter, "").unwrap();
        fs::set_permissions(&letter, fs::Permissions::from_mode(0o640)).unwrap();
        let text = format!("[x]\npath = {}\nvfs objects = recycle\n", share.display());
        fs::write(top.join("smb.conf"), text).unwrap();
        let (server, caller) = (server(&top), Caller { name: "ann".into(), address: "::1".into() });
        for (name, arguments) in [
            ("acl.set", json!({ "share": "x", "path": "letter", "sddl": "D:(A;;FA;;;WD)" })),
            ("file.restore", json!({ "share": "x", "from": ".recycle/old", "to": "old" })),
        ] {
            let error = server.change(&caller, name, arguments).expect("it is known").unwrap_err();
            assert!(error.contains("no server runs"), "{error}");
        }
        assert!(share.join(".recycle/old").exists() && !share.join("old").exists());
        assert_eq!(fs::metadata(&letter).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn sessions_end_with_the_account() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path());
        for (name, arguments, revoked) in [
            ("user.delete", json!({ "name": "ann" }), true),
            ("user.passwd", json!({ "name": "ann", "password": "x" }), true),
            ("user.enable", json!({ "name": "ann", "enabled": false }), true),
            ("user.enable", json!({ "name": "ann", "enabled": true }), false),
            ("share.remove", json!({ "name": "ann" }), false),
        ] {
            assert_eq!(server.revoked(name, &arguments).as_deref(), revoked.then_some("ann"), "{name}");
        }
    }
}

//! What a server shows of accounts, groups, shares and files, and what is on disk.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Move, user};
use crate::cases::people::output;
use test_environment::{ALICE, BOB, CAROL, Crowd, Port445};

/// Answers of a server, by the question.
pub(super) type Answers = BTreeMap<String, String>;

/// The names in one call of rpcclient.
const NAMES: usize = 50;

/// Checks that `after` equals `before`.
pub(super) fn same(when: &str, before: &Answers, after: &Answers) -> Result<()> {
    let differs = |what: &&String| before.get(*what) != after.get(*what);
    let questions: Vec<&String> =
        before.keys().chain(after.keys().filter(|what| !before.contains_key(*what))).collect();
    let different: Vec<_> = questions.iter().copied().filter(differs).collect();
    let shown = different.iter().take(3).fold(String::new(), |text, what| {
        let of = |answers: &Answers| answers.get(*what).cloned().unwrap_or_else(|| "nothing".into());
        format!("{text}{what}\nbefore:\n{}\nafter:\n{}\n", of(before), of(after))
    });
    ensure!(different.is_empty(), "{when}: {} of {} answers differ:\n{shown}", different.len(), questions.len());
    println!("  {} answers are the same {when}", questions.len());
    Ok(())
}

impl Move<'_> {
    /// Returns owner, mode, time, content and extended attributes of all files and directories.
    pub(super) fn disk(&self) -> Result<Answers> {
        let tree = self.environment.dir().join("data/tree").display().to_string();
        let answers = lines(&self.script(&["disk", &tree])?, "on disk: ")?;
        // The files, at least, and a directory for each hundred.
        ensure!(answers.len() > self.files, "only {} files are on disk", answers.len());
        let descriptors = answers.values().filter(|text| text.contains("security.NTACL=")).count();
        let streams = answers.values().filter(|text| text.contains("user.DosStream.notes")).count();
        ensure!(descriptors > self.files && streams > self.files / 4, "{descriptors} ACLs and {streams} streams");
        Ok(answers)
    }

    /// Asks the server that runs now.
    pub(super) fn answers(&self) -> Result<Answers> {
        let mut answers = lines(&self.script(&["show", "tree"])?, "content, streams and ACL of ")?;
        self.ask_smbclient(&mut answers)?;
        self.ask_for_all_acls(&mut answers)?;
        self.ask_for_logons(&mut answers)?;
        self.ask_smbcacls(&mut answers)?;
        self.ask_rpcclient(&mut answers)?;
        Ok(answers)
    }

    fn ask_smbclient(&self, answers: &mut Answers) -> Result<()> {
        let smbclient = || self.fixture.smbclient().server(&self.samba).share("tree");
        let listed = smbclient().run("recurse; ls")?.fine()?;
        for line in listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  .")) {
            let name = line.split_whitespace().next().unwrap_or_default();
            answers.insert(format!("smbclient ls {name}"), line.to_owned());
        }
        for number in (0..self.files).step_by(self.files.div_ceil(50)) {
            let text = smbclient().run(&format!("allinfo {}", path(number)))?.text;
            // The order of streams has no meaning. Samba 4.17 shows the time of the last write as that of the change.
            let moves = |line: &&str| line.starts_with("access_time") || line.starts_with("change_time");
            let mut lines: Vec<&str> = text.lines().filter(|line| !moves(line)).collect();
            lines.sort_unstable();
            answers.insert(format!("smbclient allinfo f{number}"), lines.join("\n"));
        }
        Ok(())
    }

    /// Asks for the ACLs of all files, in one session of smbclient.
    fn ask_for_all_acls(&self, answers: &mut Answers) -> Result<()> {
        let text = self.fixture.smbclient().server(&self.samba).share("tree").run("showacls; recurse; ls")?.fine()?;
        let blocks = text.split("FILENAME:").skip(1);
        let mut count = 0;
        for block in blocks {
            let lines: Vec<&str> = block.lines().filter(|line| !line.contains("blocks of size")).collect();
            let name = lines.first().context("a name")?;
            let acl = lines.iter().filter(|line| !line.trim().is_empty()).copied().collect::<Vec<_>>().join("\n");
            count += usize::from(acl.contains("Owner SID:") && acl.contains("Num ACEs:"));
            answers.insert(format!("smbclient showacls {name}"), acl);
        }
        ensure!(count > self.files, "smbclient shows only {count} ACLs");
        Ok(())
    }

    /// Logs on all users, and uses the shares that have ACLs.
    fn ask_for_logons(&self, answers: &mut Answers) -> Result<()> {
        let smbclient = || self.fixture.smbclient().server(&self.samba);
        let old = (1..=self.users).map(|number| (number, Crowd::PASSWORD));
        for (number, password) in old.chain((1..=6).map(|number| (number, "changedpw"))) {
            let credentials = format!("{}%{password}", user(number));
            let text = smbclient().share("tree").credentials(&credentials).run("cd d0")?.text;
            answers.insert(format!("logon of {credentials}"), status(&text));
        }
        let text = smbclient().share("tree").credentials("newcomer%newpw").run("cd d0")?.text;
        answers.insert("logon of newcomer".to_owned(), status(&text));
        for person in [ALICE, BOB] {
            for share in ["readers", "closed"] {
                for command in ["ls", "mkdir probe", "rmdir probe"] {
                    let text = smbclient().share(share).user(&person).run(command)?.text;
                    answers.insert(format!("{} in {share}: {command}", person.name), status(&text));
                }
            }
        }
        Ok(())
    }

    fn ask_smbcacls(&self, answers: &mut Answers) -> Result<()> {
        let client = self.fixture.environment.dir().join("client/smb.conf");
        for number in (0..self.files).step_by(self.files.div_ceil(100)) {
            let mut command = Command::new("smbcacls");
            command.arg(format!("//{}/tree", Port445::ADDRESSES[0])).arg(path(number));
            command.arg("-s").arg(&client).args(["-U", &ALICE.credentials()]).stdin(Stdio::null());
            let text = output(self.doors.enter(&mut command))?;
            let deleted = text.contains("NT_STATUS_OBJECT_NAME_NOT_FOUND");
            ensure!(deleted || text.contains("\nOWNER:"), "smbcacls of f{number}: {text}");
            answers.insert(format!("smbcacls f{number}"), text);
        }
        Ok(())
    }

    fn ask_rpcclient(&self, answers: &mut Answers) -> Result<()> {
        let mut users: Vec<String> = (1..=self.users).map(user).collect();
        users.extend([ALICE.name, BOB.name, CAROL.name].map(str::to_owned));
        let groups = (1..=self.groups).map(|number| format!("Group {number}"));
        let names: Vec<String> = users.iter().cloned().chain(groups).collect();
        for names in names.chunks(NAMES) {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            let found = self.rpcclient(&format!("lookupnames {}", quoted.join(" ")))?;
            let sids: Vec<&str> = found.split_whitespace().filter(|word| word.starts_with("S-1-")).collect();
            ensure!(sids.len() == names.len(), "{} names have {} SIDs:\n{found}", names.len(), sids.len());
            let back = self.rpcclient(&format!("lookupsids {}", sids.join(" ")))?;
            for line in found.lines() {
                answers.insert(
                    format!("rpcclient lookupnames {}", line.split(" S-1-").next().unwrap_or_default()),
                    line.into(),
                );
            }
            for line in back.lines() {
                answers.insert(
                    format!("rpcclient lookupsids {}", line.split(' ').next().unwrap_or_default()),
                    line.into(),
                );
            }
        }
        answers.insert("rpcclient lookupnames newcomer".into(), self.rpcclient("lookupnames newcomer")?);
        for users in users.chunks(NAMES) {
            let commands: Vec<String> = users.iter().map(|name| format!("queryuser {name}")).collect();
            let text = self.rpcclient(&commands.join("; "))?;
            for block in text.split("\tUser Name   :").skip(1) {
                let name = block.split_whitespace().next().unwrap_or_default();
                let lines: Vec<&str> = block.lines().filter(|line| is_migrated(line)).collect();
                answers.insert(format!("rpcclient queryuser {name}"), lines.join("\n"));
            }
        }
        for command in ["enumdomusers", "enumdomgroups", "enumalsgroups domain"] {
            let text = self.rpcclient(command)?;
            // Samba lists the guest account, but not the primary group of all accounts.
            let own = |line: &&str| !line.contains("[nobody]") && !line.contains("group:[None]");
            let mut lines: Vec<&str> = text.lines().filter(own).collect();
            lines.sort_unstable();
            answers.insert(format!("rpcclient {command}"), lines.join("\n"));
        }
        for command in ["lsaquery", "getdompwinfo"] {
            answers.insert(format!("rpcclient {command}"), self.rpcclient(command)?);
        }
        Ok(())
    }
}

/// Returns whether a line of `queryuser` has a value that is taken over. Samba fills in profile and home directory from
/// its configuration, and has several times that mean never. Wrong passwords are counted by each server.
fn is_migrated(line: &str) -> bool {
    let fields = ["Home Drive", "Profile Path", "Logoff Time", "bad_password_count"];
    let may_be_never = line.contains("Kickoff Time") || line.contains("Password must change Time");
    let is_never = may_be_never && [" 1970 ", " 2036 ", " 30828 "].iter().any(|year| line.contains(year));
    !is_never && !fields.iter().any(|field| line.trim().starts_with(field))
}

/// Returns the lines of the script: a name and an answer each.
fn lines(text: &str, question: &str) -> Result<Answers> {
    let answer = |line: &str| {
        let (name, shown) = line.split_once(' ').context("a name and an answer")?;
        Ok((format!("{question}{name}"), shown.to_owned()))
    };
    text.lines().map(answer).collect()
}

/// Returns the path of a file of the tree, for a client.
fn path(number: usize) -> String {
    format!("d{}\\f{number}", number / 100)
}

/// Returns the status in the output of smbclient.
fn status(text: &str) -> String {
    let word = text.split_whitespace().find(|word| word.starts_with("NT_STATUS_"));
    word.unwrap_or("success").to_owned()
}

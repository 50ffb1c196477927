use std::sync::Arc;

use server::vfs::Identity;

use super::*;
use crate::admin::message::{Imported, Migration, NewGroup};
use accounts::record::nt_hash;

/// A host on which every user but `gone` exists.
struct Everybody;

impl Names for Everybody {
    fn user(&self, name: &str) -> Result<Option<Arc<Identity>>, String> {
        Ok((name != "gone").then(|| Arc::new(Identity { uid: 7, gid: 7, groups: Box::new([]) })))
    }

    fn group(&self, _: &str) -> Result<Option<u32>, String> {
        Ok(None)
    }

    fn host(&self) -> String {
        "host".into()
    }

    fn environment(&self, _: &str) -> Option<String> {
        None
    }
}

fn account(name: &str, rid: u32, password: &str) -> Migrated {
    let account = Imported {
        name: name.into(),
        nt_hash: Some(nt_hash(password).unwrap()),
        disabled: false,
        locked: false,
        must_change: false,
        never_expires: name == "ann",
        password_last_set: Some(0x6b01_3c02),
    };
    Migrated { account, sid: format!("S-1-5-21-1-2-3-{rid}"), full_name: format!("It's {name}"), expires: None }
}

fn group(sid: &str) -> GroupView {
    GroupView {
        name: "Night Shift".into(),
        sid: sid.into(),
        kind: GroupKind::Domain,
        gid: 9,
        unix_group: Some("night".into()),
        comment: String::new(),
    }
}

fn samba() -> Samba {
    let old = group("S-1-5-21-1-2-3-1100");
    let (name, unix_group, sid) = (old.name, "9".into(), Some(old.sid));
    Samba {
        migration: Migration {
            machine_sid: "S-1-5-21-1-2-3".into(),
            accounts: vec![account("ann", 1000, "x"), account("bob", 1001, "x"), account("carl", 1002, "x")],
            groups: vec![NewGroup { name, unix_group, sid, kind: GroupKind::Domain, comment: String::new() }],
            policies: vec![("lockout duration".into(), 30), ("maximum password age".into(), i64::from(u32::MAX))],
            share_acls: vec![ShareAcl { share: "old".into(), sddl: "D:(A;;FA;;;WD)".into() }],
        },
        verbose: BTreeMap::new(),
        losses: Vec::new(),
        ignored: Vec::new(),
    }
}

fn here() -> Here {
    let Samba { migration, .. } = samba();
    Here {
        machine_sid: migration.machine_sid,
        accounts: migration.accounts,
        groups: vec![group("S-1-5-21-1-2-3-1100")],
        policies: vec![("lockout duration".into(), 30), ("maximum password age".into(), -1)],
        share_acls: migration.share_acls,
    }
}

#[test]
fn nothing_is_imported_if_nothing_changed() {
    let changes = Changes::between(&here(), &samba(), &Everybody, "/smb.conf");
    assert!(changes.commands.is_empty() && changes.notes.is_empty() && changes.lines.is_empty());
    let text = changes.text(None);
    assert!(text.contains("are the same") && text.contains("systemctl enable --now smb"), "{text}");
}

#[test]
fn changes_become_commands() {
    let mut here = here();
    here.accounts[0].account.nt_hash = Some(nt_hash("new").unwrap());
    here.accounts[1].account.disabled = true;
    here.accounts[2] = Migrated { expires: Some(1_900_000_000), ..account("dora", 1_000_000, "x") };
    here.accounts.push(account("gone", 1_000_001, "x"));
    here.groups[0].sid = "S-1-5-21-1-2-3-1101".into();
    here.policies[0].1 = -1;
    here.share_acls[0].share = "new".into();
    let changes = Changes::between(&here, &samba(), &Everybody, "/smb.conf");
    assert_eq!(changes.accounts, ["ann", "bob", "dora"]);
    let hash = "X".repeat(32);
    let lines: Vec<&str> = changes.lines.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with(&format!("ann:7:{hash}:")) && lines[0].ends_with(":[UX         ]:LCT-6B013C02:"));
    assert!(lines[1].ends_with(":[DU         ]:LCT-6B013C02:"), "{}", lines[1]);
    assert_eq!(
        changes.commands,
        [
            "pdbedit -s '/smb.conf' -i smbpasswd:\"$dir\"/accounts.smbpasswd",
            r"pdbedit -s '/smb.conf' -r -u 'ann' -U S-1-5-21-1-2-3-1000 -f 'It'\''s ann' > /dev/null",
            r"pdbedit -s '/smb.conf' -r -u 'bob' -U S-1-5-21-1-2-3-1001 -f 'It'\''s bob' > /dev/null",
            "pdbedit -s '/smb.conf' -r -u 'dora' -U S-1-5-21-1-2-3-1000000 -f 'It'\\''s dora' -K 1900000000 \
             > /dev/null",
            "net -s '/smb.conf' groupmap add sid=S-1-5-21-1-2-3-1101 ntgroup='Night Shift' unixgroup='night' \
             type=domain comment=''",
            "pdbedit -s '/smb.conf' -P 'lockout duration' -C 4294967295",
            "sharesec -s '/smb.conf' 'new' -S 'D:(A;;0x1f01ff;;;WD)'",
            "sharesec -s '/smb.conf' 'old' -D",
        ]
    );
    let notes = changes.notes.join("\n");
    for word in ["gone is not imported", "carl exists in Samba only", "groupmap delete sid=S-1-5-21-1-2-3-1100"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
    let printed = changes.text(None);
    assert!(!printed.contains(lines[0]), "hashes are not printed: {printed}");
}

#[test]
fn the_files_are_private_and_a_directory_is_not_reused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("it's back");
    let mut here = here();
    here.accounts[0].account.disabled = true;
    let changes = Changes::between(&here, &samba(), &Everybody, "/smb.conf");
    changes.write(&path).unwrap();
    let mode = |name: &str| std::fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("."), mode(ACCOUNTS), mode(SCRIPT)), (0o700, 0o600, 0o600));
    let script = std::fs::read_to_string(path.join(SCRIPT)).unwrap();
    assert!(script.contains(r"it'\''s back'") && script.contains("-i smbpasswd:\"$dir\"/accounts"), "{script}");
    assert!(changes.write(&path).unwrap_err().to_string().contains("does not exist"));
}

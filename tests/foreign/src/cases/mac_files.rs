//! Trees with Finder info and resource forks, in each form that Samba's `fruit` stores, which Samba and Frevo serve by
//! turns. What one server writes, the other reads, and both store the same bytes.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::cases::people::output;
use crate::cases::twins::{Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CAROL};

pub(super) const CASES: &[Case] = &[
    Case::new("mac.files_by_turns", by_turns).needs_root().frevo_only(),
    Case::new("mac.files_are_stored_alike", stored_alike).needs_root().frevo_only(),
    Case::new("mac.files_of_macos", of_macos).needs_root().frevo_only(),
    Case::new("mac.files_have_the_same_rights", same_rights).needs_root().frevo_only(),
];

/// The values of `fruit:metadata` and `fruit:resource` with which shares are named.
const FORMS: [(&str, &str); 4] =
    [("netatalk", "file"), ("stream", "file"), ("netatalk", "stream"), ("stream", "stream")];

/// Starts both servers with a share for each form, in a directory of its own in each of the `trees`.
fn start(fixture: &Fixture, name: &str, trees: [&Path; 2]) -> Result<Twins> {
    let mut template = "[global]\n@TARGET@\n\tnetbios name = BED\n\tread only = no\n\tmap archive = no\n".to_owned();
    for (metadata, resource) in FORMS {
        for tree in trees {
            let directory = tree.join(format!("{metadata}-{resource}"));
            fs::create_dir_all(&directory)?;
            fs::set_permissions(&directory, Permissions::from_mode(0o777))?;
        }
        template.push_str(&format!(
            "[{metadata}-{resource}]\n\tpath = @TREE@/{metadata}-{resource}\n\tvfs objects = catia fruit \
             streams_xattr\n\tfruit:metadata = {metadata}\n\tfruit:resource = {resource}\n\tfruit:encoding = native\n"
        ));
    }
    Twins::start(fixture, name, &template, trees)
}

/// Each server shows the same as the other one, whichever has written or changed it.
fn by_turns(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let tree = fixture.environment.make_dir("data/mac-turns", &ALICE, 0o777)?;
    let twins = start(fixture, "mac-turns", [&tree, &tree])?;
    for (metadata, resource) in FORMS {
        let share = format!("{metadata}-{resource}");
        let run = |twin, words: &[&str]| twins.script(fixture, twin, "mac_files.py", &[&[&*share], words].concat());
        for (writer, other) in [(Twin::Samba, Twin::Frevo), (Twin::Frevo, Twin::Samba)] {
            let prefix = format!("{writer:?}-");
            for (by, action) in [(writer, "write"), (other, "change")] {
                run(by, &[action, &prefix])?;
                let (samba, frevo) = (run(Twin::Samba, &["show"])?, run(Twin::Frevo, &["show"])?);
                ensure!(
                    samba.contains("AFP_Resource") && samba.contains("AFP_AfpInfo"),
                    "{share} lacks forks: {samba}"
                );
                ensure!(
                    samba == frevo,
                    "{share}: after {by:?}'s {action}, Samba shows:\n{samba}\nFrevo shows:\n{frevo}"
                );
            }
        }
    }
    Ok(())
}

/// Both servers leave the same files with the same bytes and attributes.
fn stored_alike(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let trees = ["data/mac-samba", "data/mac-frevo"];
    let [for_samba, for_frevo] = trees.map(|tree| fixture.environment.make_dir(tree, &ALICE, 0o777));
    let trees = [&*for_samba?, &*for_frevo?];
    let twins = start(fixture, "mac-alike", trees)?;
    for (metadata, resource) in FORMS {
        let share = format!("{metadata}-{resource}");
        for action in ["write", "change"] {
            let mut stored = Vec::new();
            for (twin, tree) in [Twin::Samba, Twin::Frevo].into_iter().zip(trees) {
                twins.script(fixture, twin, "mac_files.py", &[&share, action, ""])?;
                stored.push(contents(&tree.join(&share))?);
            }
            let [samba, frevo] = [&stored[0], &stored[1]];
            let has_doubles = samba.keys().any(|name| name.starts_with("._"));
            ensure!(has_doubles == (resource == "file"), "{share}: {:?}", samba.keys());
            let differs = |name: &&String| samba.get(*name) != frevo.get(*name);
            let different: Vec<_> = samba.keys().chain(frevo.keys()).filter(differs).collect();
            let Some(name) = different.first() else { continue };
            let (samba, frevo) = (samba.get(*name), frevo.get(*name));
            bail!("{share} after {action}, {name}: Samba has\n{samba:?}\nFrevo has\n{frevo:?}");
        }
    }
    Ok(())
}

/// A new AppleDouble file has the permissions of its file, and not those that the directory's default ACL gives.
fn same_rights(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let tree = fixture.environment.make_dir("data/mac-rights", &ALICE, 0o777)?;
    let twins = start(fixture, "mac-rights", [&tree, &tree])?;
    let directory = tree.join("netatalk-file");
    let [reader, writer] = [BOB.id, CAROL.id];
    acl(&["-d", "-m", &format!("u:{reader}:rw,u:{writer}:rw,m::rw")], &directory)?;
    // The mask is `rw`, the owning group may read, and one user may do nothing.
    let lists = [("plain", format!("u::rw,g::r,m::rw,o::r,u:{reader}:-")), ("ü€", "u::rw,g::-,o::-".to_owned())];
    for (name, list) in &lists {
        let path = directory.join(name);
        fs::write(&path, b"")?;
        chown(&path, Some(ALICE.id), Some(ALICE.id))?;
        acl(&["--set", list], &path)?;
    }
    twins.script(fixture, Twin::Frevo, "mac_files.py", &["netatalk-file", "write", ""])?;
    for (name, _) in &lists {
        let [file, double] = [(*name).to_owned(), format!("._{name}")]
            .map(|name| output(Command::new("getfacl").args(["-c", "-n", "-p", "--"]).arg(directory.join(name))));
        let (file, double) = (file?, double?);
        ensure!(file == double, "{name} has\n{file}\n._{name} has\n{double}");
    }
    Ok(())
}

fn acl(options: &[&str], path: &Path) -> Result<()> {
    let said = output(Command::new("setfacl").args(options).arg("--").arg(path))?;
    ensure!(said.is_empty(), "setfacl: {said}");
    Ok(())
}

/// What a file is stored as: its bytes, and its attributes with their values.
type Stored = (Vec<u8>, Vec<String>);

/// Returns what the files in a directory are stored as, without what depends on the time.
fn contents(directory: &Path) -> Result<BTreeMap<String, Stored>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            continue;
        }
        let mut getfattr = Command::new("getfattr");
        let text = output(getfattr.args(["-d", "-m", "-", "-e", "hex", "--absolute-names", "--"]).arg(entry.path()))?;
        let mut attributes: Vec<_> = text
            .lines()
            .filter(|line| line.contains('=') && !line.starts_with("user.DOSATTRIB") && !line.starts_with('#'))
            .map(without_dates)
            .collect();
        attributes.sort();
        let name = entry.file_name().to_string_lossy().into_owned();
        all.insert(name, (fs::read(entry.path())?, attributes));
    }
    Ok(all)
}

/// Removes the dates in Netatalk's attribute: 16 bytes at 354.
fn without_dates(line: &str) -> String {
    match line.strip_prefix("user.org.netatalk.Metadata=0x") {
        Some(value) if value.len() > 740 => {
            format!("user.org.netatalk.Metadata={}...{}", &value[..708], &value[740..])
        }
        _ => line.to_owned(),
    }
}

/// What macOS stored beside files of a share without streams is shown by both servers, each in its tree.
fn of_macos(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let trees = ["data/macos-samba", "data/macos-frevo"];
    let [for_samba, for_frevo] = trees.map(|tree| fixture.environment.make_dir(tree, &ALICE, 0o777));
    let trees = [&*for_samba?, &*for_frevo?];
    let twins = start(fixture, "mac-macos", trees)?;
    for metadata in ["netatalk", "stream"] {
        let share = format!("{metadata}-file");
        let mut shown = Vec::new();
        for (twin, tree) in [Twin::Samba, Twin::Frevo].into_iter().zip(trees) {
            for (name, fork) in [("fork", &b"resource fork"[..]), ("none", b"")] {
                for (name, bytes) in [(name.to_owned(), b"content".to_vec()), (format!("._{name}"), double(fork))] {
                    let path = tree.join(&share).join(name);
                    fs::write(&path, bytes)?;
                    fs::set_permissions(&path, Permissions::from_mode(0o666))?;
                }
            }
            // Samba converts files in a listing.
            twins.script(fixture, twin, "mac_files.py", &[&share, "show"])?;
            shown.push(twins.script(fixture, twin, "mac_files.py", &[&share, "show"])?);
        }
        for words in ["quarantine", "AFP_AfpInfo", "AFP_Resource", "UserTags"] {
            ensure!(shown[1].contains(words), "{share} lacks {words}: {}", shown[1]);
        }
        ensure!(shown[0] == shown[1], "{share}: Samba shows:\n{}\nFrevo shows:\n{}", shown[0], shown[1]);
        // What one has converted, the other serves.
        for name in ["._fork", "._none"] {
            let [one, other] = trees.map(|tree| tree.join(&share).join(name));
            let (by_samba, by_frevo) = (fs::read(&one)?, fs::read(&other)?);
            fs::write(one, by_frevo)?;
            fs::write(other, by_samba)?;
        }
        for twin in [Twin::Samba, Twin::Frevo] {
            let again = twins.script(fixture, twin, "mac_files.py", &[&share, "show"])?;
            ensure!(again == shown[0], "{share}: {twin:?} shows of the other's files:\n{again}\nnot:\n{}", shown[0]);
        }
    }
    Ok(())
}

/// Returns an AppleDouble file as macOS writes it: Finder info, two extended attributes, and the resource fork.
fn double(fork: &[u8]) -> Vec<u8> {
    let attributes = [("com.apple.quarantine", &b"0081;q"[..]), ("com.apple.metadata:_kMDItemUserTags", b"bplist00")];
    let aligned = |name: &str| (12 + name.len()).next_multiple_of(4);
    let values = 120 + attributes.iter().map(|(name, _)| aligned(name)).sum::<usize>();
    let all = attributes.iter().map(|(_, value)| value.len()).sum::<usize>();
    // macOS leaves space for further attributes.
    let end = 3810;
    let mut bytes = vec![0, 5, 0x16, 7, 0, 2, 0, 0];
    bytes.extend_from_slice(b"Mac OS X        \0\x02");
    let number = |bytes: &mut Vec<u8>, number: usize| bytes.extend_from_slice(&(number as u32).to_be_bytes());
    for field in [9, 50, end - 50, 2, end, fork.len()] {
        number(&mut bytes, field);
    }
    bytes.extend_from_slice(b"TEXTttxt\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x12\x34\0\0\0\0\0\0");
    bytes.extend_from_slice(b"\0\0ATTR\x12\x34\x56\x78");
    for field in [end, values, all, 0, 0, 0, attributes.len()] {
        number(&mut bytes, field);
    }
    let mut offset = values;
    for (name, value) in attributes {
        number(&mut bytes, offset);
        number(&mut bytes, value.len());
        bytes.extend_from_slice(&[0, 0, name.len() as u8 + 1]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(bytes.len() + aligned(name) - 11 - name.len(), 0);
        offset += value.len();
    }
    attributes.iter().for_each(|(_, value)| bytes.extend_from_slice(value));
    bytes.resize(end, 0);
    bytes.extend_from_slice(fork);
    bytes
}

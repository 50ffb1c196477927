//! A saved calibration in the server's state directory: `acl-store.SHARE.json`, and the HTML page with its plot.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use report::machine;
use serde::{Deserialize, Serialize};
use server::policy::{AclStore, Entries, Policy, Share, fold};

use super::verdict;
use accounts::state_dir::StateDir;

/// Format version of the file.
const FORMAT: u32 = 1;

/// Size limit when reading the file, in bytes.
const LONGEST: u64 = 1 << 20;

/// Assumed number of accesses to a file that is not in the server's cache, as found by the study.
pub(super) const ACCESSES: u32 = 4;

/// One calibration. All times are in seconds.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Calibration {
    format: u32,
    /// The share's name.
    pub(super) share: String,
    /// The share's directory at the time of the calibration.
    pub(super) path: PathBuf,
    /// The file system, as the kernel describes it.
    pub(super) file_system: Option<String>,
    /// Start time, RFC 3339.
    pub(super) taken: String,
    /// Number of measurement runs.
    pub(super) runs: u32,
    /// Assumed number of checks per file.
    pub(super) accesses: u32,
    /// Results by number of ACL entries.
    pub(super) samples: Vec<Sample>,
    /// The files for which storing pays off, in the syntax of `frevo:acl store`.
    store: String,
}

/// Results for files with this number of ACL entries.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(super) struct Sample {
    pub(super) entries: u32,
    /// With warm kernel caches.
    pub(super) warm: Times,
    /// With cold kernel caches; `None` if not measured.
    pub(super) cold: Option<Times>,
}

/// Times of one access check.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(super) struct Times {
    /// T_C: converts without storing.
    pub(super) converted: Spread,
    /// T_CW: converts and stores; `None` if the file system has no space for the descriptor.
    pub(super) written: Option<Spread>,
    /// T_A: reads the stored descriptor.
    pub(super) stored: Option<Spread>,
}

/// Distribution over the runs; the value of a run is the mean over its files.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub(super) struct Spread {
    pub(super) minimum: f64,
    pub(super) mean: f64,
}

impl Calibration {
    /// Builds the calibration of `share` from `samples`.
    pub(super) fn new(share: &Share, taken: String, runs: u32, samples: Vec<Sample>) -> Calibration {
        Calibration {
            format: FORMAT,
            share: share.name.clone(),
            path: share.path.clone(),
            file_system: machine::file_system_of(&share.path),
            taken,
            runs,
            accesses: ACCESSES,
            store: verdict::entries(&samples).to_string(),
            samples,
        }
    }

    /// Returns the ACL lengths for which storing pays off.
    pub(crate) fn entries(&self) -> Entries {
        match smbconf::parse_acl_store(&self.store) {
            Some(AclStore::Said(entries)) => entries,
            _ => Entries::NONE,
        }
    }

    /// Saves the calibration, replacing an earlier one.
    pub(super) fn keep(&self, state: &StateDir) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        replace(state, &file_name(&self.share, "json"), text.as_bytes())
    }

    /// Loads the calibration of `share`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has another format, or was made for another directory.
    pub(crate) fn of(state: &StateDir, share: &Share) -> Result<Option<Calibration>> {
        let name = file_name(&share.name, "json");
        let Some(file) = state.open_file(&name)? else { return Ok(None) };
        let place = || format!("{}: measure again with `frevo acl calibrate`", state.path().join(&name).display());
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).with_context(place)?;
        let calibration: Calibration = serde_json::from_str(&text).with_context(place)?;
        if calibration.format != FORMAT || smbconf::parse_acl_store(&calibration.store).is_none() {
            bail!("{}: the file has another version's format", place());
        }
        if calibration.path != share.path {
            bail!("{}: it was measured in {}", place(), calibration.path.display());
        }
        Ok(Some(calibration))
    }
}

/// Sets the measured entries of each share with `frevo:acl store = auto`. A calibration that cannot be read is reported
/// to `complain` and treated as missing.
pub(crate) fn fill_in(policy: &mut Policy, state: &StateDir, complain: &mut dyn FnMut(&Share, &anyhow::Error)) {
    for share in policy.shares.values_mut() {
        let measured = share.converts() && matches!(share.acls.acl_store, AclStore::Auto(_));
        if !measured || share.path_template.is_some() || !share.storage.is_directory() {
            continue;
        }
        match Calibration::of(state, share) {
            Ok(Some(calibration)) => {
                Arc::make_mut(share).acls.acl_store = AclStore::Auto(Some(calibration.entries()));
            }
            Ok(None) => {}
            Err(error) => complain(share, &error),
        }
    }
}

/// Writes the page with the plot and returns its path.
pub(super) fn keep_page(state: &StateDir, share: &str, page: &str) -> Result<PathBuf> {
    let name = file_name(share, "html");
    replace(state, &name, page.as_bytes())?;
    Ok(state.path().join(name))
}

fn replace(state: &StateDir, name: &str, content: &[u8]) -> Result<()> {
    let new = format!("{name}.new");
    state.remove(&new)?;
    let mut file: File = state.create_file(&new)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write {}", state.path().join(&new).display()))?;
    state.rename(&new, name)
}

/// Returns the file name for a share. Every character that is not a plain letter or digit is written as its number.
fn file_name(share: &str, kind: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let mut name = String::from("acl-store.");
    for letter in fold(share).chars() {
        match plain(letter) {
            true => name.push(letter),
            false => name += &format!("%{:x}", u32::from(letter)),
        }
    }
    format!("{name}.{kind}")
}

#[cfg(test)]
mod tests {
    use server::policy::StoredAcls;

    use super::*;

    fn share(name: &str, path: &str) -> Share {
        let acls = StoredAcls {
            of_owner: None,
            attribute: "security.NTACL".into(),
            ignore_system_acls: false,
            default_style: server::policy::AclStyle::Posix,
        };
        let mut share = Share::new(name, path);
        share.acls.stored = Some(acls);
        share
    }

    fn samples(stored: f64) -> Vec<Sample> {
        let spread = |seconds| Spread { minimum: seconds, mean: seconds };
        let times = Times { converted: spread(4e-6), written: Some(spread(9e-6)), stored: Some(spread(stored)) };
        [3, 4, 5].map(|entries| Sample { entries, warm: times.clone(), cold: Some(times.clone()) }).into()
    }

    #[test]
    fn a_calibration_applies_only_to_its_share_and_directory() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::create(&directory.path().join("state")).unwrap();
        let measured = share("Data", "/srv/data");
        assert_eq!(Calibration::of(&state, &measured).unwrap(), None);
        for stored in [5e-6, 1e-6] {
            let calibration = Calibration::new(&measured, "2026-01-01T00:00:00Z".into(), 9, samples(stored));
            calibration.keep(&state).unwrap();
            assert_eq!(Calibration::of(&state, &share("DATA", "/srv/data")).unwrap(), Some(calibration));
        }
        assert!(Calibration::of(&state, &share("data", "/srv/other")).is_err());
        let mut policy = Policy::default();
        let mut plain = share("plain", "/srv/data");
        plain.acls.stored = None;
        let elsewhere = Share { storage: server::testing::gluster("v"), ..share("elsewhere", "/srv/data") };
        Calibration::new(&elsewhere, String::new(), 9, samples(1e-6)).keep(&state).unwrap();
        for share in [measured, share("moved", "/srv/moved"), plain, elsewhere] {
            policy.shares.insert(fold(&share.name), Arc::new(share));
        }
        fill_in(&mut policy, &state, &mut |share, error| panic!("{}: {error:#}", share.name));
        let of = |name: &str| policy.shares[name].acls.acl_store.clone();
        assert_eq!(of("data"), AclStore::Auto(Some(Entries::ALL)));
        for other in ["moved", "plain", "elsewhere"] {
            assert_eq!(of(other), AclStore::Auto(None), "{other}");
        }
    }

    #[test]
    fn a_configured_value_overrides_the_calibration() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::create(&directory.path().join("state")).unwrap();
        let mut said = share("data", "/srv/data");
        said.acls.acl_store = AclStore::Said(Entries::NONE);
        Calibration::new(&said, String::new(), 9, samples(1e-6)).keep(&state).unwrap();
        let mut policy = Policy::default();
        policy.shares.insert("data".into(), Arc::new(said.clone()));
        fill_in(&mut policy, &state, &mut |_, error| panic!("{error:#}"));
        assert_eq!(policy.shares["data"].acls.acl_store, said.acls.acl_store);
    }

    #[test]
    fn a_damaged_file_is_reported_and_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::create(&directory.path().join("state")).unwrap();
        for content in ["", "{}", "\u{0}"] {
            replace(&state, &file_name("data", "json"), content.as_bytes()).unwrap();
            let mut policy = Policy::default();
            policy.shares.insert("data".into(), Arc::new(share("data", "/srv/data")));
            let mut said = 0;
            fill_in(&mut policy, &state, &mut |_, _| said += 1);
            assert_eq!((said, &policy.shares["data"].acls.acl_store), (1, &AclStore::Auto(None)), "{content:?}");
        }
    }

    #[test]
    fn share_names_are_encoded_as_file_names() {
        for (share, name) in [("Data", "acl-store.data.json"), ("a/b ../é", "acl-store.a%2fb%20%2e%2e%2f%e9.json")] {
            assert_eq!(file_name(share, "json"), name);
        }
    }
}

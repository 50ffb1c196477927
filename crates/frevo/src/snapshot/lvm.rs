//! Thin volumes of LVM, by its programs.
//!
//! LVM's metadata is the record of what this program created: `lvcreate` adds the tags in the same step in which it
//! creates a snapshot. So a process that is killed leaves no snapshot without them, and neither a rollback nor a
//! restored file system loses them. They name the volume and the time, so a snapshot that an administrator created
//! cannot have them by accident.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::Dev;
use serde::Deserialize;
use server::policy::snapshots::Format;

use super::record::{Id, Taken};

/// The tag of all snapshots that this program created.
const TAG: &str = "frevo-snapshot";
/// The start of the tag with the time of the snapshot, in UTC.
const AT: &str = "frevo-at.";
/// The start of the tag with the UUID of the volume of which it was taken.
const OF: &str = "frevo-of.";
/// What precedes the time in the name of a snapshot.
const TOKEN: &str = "@GMT-";
/// The start of the UUIDs that LVM gives to the devices of its volumes.
const DEVICE: &str = "LVM-";
/// The characters in the groups of a UUID.
const GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];
/// The characters of a UUID without the hyphens.
const UUID: usize = 32;
/// A pool that is used more than this does not get another snapshot, in percent.
const FULL: f64 = 90.0;
/// Where LVM's programs are searched.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
const FIELDS: &str = "vg_name,lv_name,lv_uuid,lv_dm_path,lv_layout,lv_permissions,lv_kernel_major,lv_kernel_minor,\
                      lv_health_status,pool_lv_uuid,origin_uuid,lv_tags,data_percent,metadata_percent";
/// The longest message of a program that is repeated, in bytes.
const MESSAGE: usize = 600;

/// A logical volume, as `lvs` reports it. Numbers are text there, empty if they do not apply.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Logical {
    vg_name: String,
    lv_name: String,
    pub(super) lv_uuid: Id,
    lv_dm_path: PathBuf,
    lv_layout: String,
    lv_permissions: String,
    lv_kernel_major: String,
    lv_kernel_minor: String,
    lv_health_status: String,
    pool_lv_uuid: Id,
    origin_uuid: Id,
    lv_tags: String,
    data_percent: String,
    metadata_percent: String,
}

#[derive(Deserialize)]
struct Output {
    report: Vec<Report>,
}

#[derive(Deserialize)]
struct Report {
    lv: Vec<Logical>,
}

/// A snapshot that this program created.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) volume: Logical,
    pub(super) taken: Taken,
    pub(super) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It is as it was created.
    Own,
    /// It is one of a volume that another has replaced (`lvconvert --merge`).
    Former,
    /// Somebody has made it writable.
    Writable,
}

impl Logical {
    /// Returns the name with that of the volume group, as LVM's programs expect it.
    pub(super) fn name(&self) -> String {
        // Names of volumes that LVM hides are reported in brackets.
        format!("{}/{}", self.vg_name, self.lv_name.trim_matches(['[', ']']))
    }

    pub(super) fn is_thin(&self) -> bool {
        self.has_layout("thin") && !self.pool_lv_uuid.is_empty()
    }

    fn has_layout(&self, wanted: &str) -> bool {
        self.lv_layout.split(',').any(|layout| layout == wanted)
    }

    /// Returns what kind of volume it is.
    pub(super) fn layout(&self) -> &str {
        &self.lv_layout
    }

    /// Returns the path of the device, and its number; `None` if the volume is not active.
    pub(super) fn device(&self) -> Option<(&Path, Dev)> {
        let number = rustix::fs::makedev(self.lv_kernel_major.parse().ok()?, self.lv_kernel_minor.parse().ok()?);
        Some((&self.lv_dm_path, number))
    }

    fn tag(&self, start: &str) -> Option<&str> {
        self.lv_tags.split(',').find_map(|tag| tag.strip_prefix(start))
    }

    /// Returns the snapshot of the volume `of` that this program created.
    fn snapshot(&self, of: &str) -> Option<Snapshot> {
        let is_marked = self.lv_tags.split(',').any(|tag| tag == TAG) && self.tag(OF) == Some(of);
        if !is_marked || !self.is_thin() || &*self.lv_uuid == of {
            return None;
        }
        let name = format!("{TOKEN}{}", self.tag(AT)?);
        let moment = Format::token().moment(name.as_bytes(), None)?;
        let state = match (&*self.lv_permissions, &*self.origin_uuid) {
            ("read-only", origin) if origin == of => State::Own,
            ("read-only", _) => State::Former,
            _ => State::Writable,
        };
        let taken = Taken { moment, name, of: of.into(), own: Some(self.lv_uuid.clone()) };
        Some(Snapshot { volume: self.clone(), taken, state })
    }
}

/// The logical volumes of one volume group.
pub(super) struct Volumes(Vec<Logical>);

impl Volumes {
    /// Reads the volumes of the group with this UUID.
    pub(super) fn of_group(uuid: &str) -> Result<Volumes> {
        let select = format!("vg_uuid=\"{uuid}\"");
        let options = ["--all", "--reportformat", "json", "--units", "b", "--options", FIELDS, "--select", &select];
        Volumes::parse(&run("lvs", &options)?).context("the report of `lvs` cannot be understood")
    }

    fn parse(text: &[u8]) -> Result<Volumes> {
        let Output { report } = serde_json::from_slice(text)?;
        Ok(Volumes(report.into_iter().flat_map(|report| report.lv).collect()))
    }

    /// Returns the volume with this UUID.
    pub(super) fn find(&self, uuid: &str) -> Option<&Logical> {
        self.0.iter().find(|volume| &*volume.lv_uuid == uuid)
    }

    /// Returns the snapshots of the volume `of` that this program created, the oldest first.
    pub(super) fn snapshots(&self, of: &str) -> Vec<Snapshot> {
        let mut found: Vec<Snapshot> = self.0.iter().filter_map(|volume| volume.snapshot(of)).collect();
        found.sort_unstable_by(|a, b| a.taken.cmp(&b.taken));
        found
    }

    /// Refuses another snapshot in the pool of `origin` if the pool is nearly full: a full one makes all its volumes
    /// fail, and the more snapshots there are, the sooner it is full.
    pub(super) fn check_pool(&self, origin: &Logical) -> Result<()> {
        let pool = self.find(&origin.pool_lv_uuid);
        let pool = pool.with_context(|| format!("the thin pool of {} is not reported by `lvs`", origin.name()))?;
        let name = pool.name();
        if !pool.lv_health_status.is_empty() {
            bail!(
                "the thin pool {name} reports `{}`, so no snapshot is created; repair or extend it (lvmthin(7))",
                pool.lv_health_status
            );
        }
        let parts = [
            ("data", &pool.data_percent, format!("lvextend --size +10G {name}")),
            ("metadata", &pool.metadata_percent, format!("lvextend --poolmetadatasize +1G {name}")),
        ];
        for (what, percent, remedy) in parts {
            let used: f64 = percent.parse().with_context(|| {
                format!("`lvs` does not report how much {what} the thin pool {name} has; activate the pool")
            })?;
            if used > FULL {
                bail!(
                    "the thin pool {name} is full to {percent} % of its {what}, and to more than {FULL} % no snapshot \
                     is created, because a full pool makes all its volumes fail; extend it with `{remedy}`, or keep \
                     fewer snapshots"
                );
            }
        }
        Ok(())
    }
}

/// Creates and activates the snapshot of `origin` that is called `name` in the directory of the snapshots.
/// Device-mapper freezes the mounted file system meanwhile.
pub(super) fn create(origin: &Logical, name: &str) -> Result<()> {
    let time = name.strip_prefix(TOKEN).context("the name has no time")?;
    let new = format!("{}-frevo-{time}", origin.lv_name);
    let (at, of) = (format!("{AT}{time}"), format!("{OF}{}", origin.lv_uuid));
    let tags = ["--addtag", TAG, "--addtag", &at, "--addtag", &of];
    // A thin volume with an origin and without a size is a snapshot. With `--snapshot`, LVM would load the module of
    // snapshots that are not thin, which the service may not do.
    let options =
        ["--type", "thin", "--name", &new, "--permission", "r", "--setactivationskip", "n", "--activate", "y"];
    run("lvcreate", &[options.as_slice(), &tags, &["--yes", &origin.name()]].concat()).map(drop)
}

/// Activates a snapshot.
pub(super) fn activate(volume: &Logical) -> Result<()> {
    run("lvchange", &["--activate", "y", "--yes", "--ignoreactivationskip", &volume.name()]).map(drop)
}

/// Removes a snapshot. LVM itself compares its UUID and tags, so that another volume that has got the name meanwhile
/// is not removed.
pub(super) fn remove(snapshot: &Snapshot) -> Result<()> {
    let Snapshot { volume, taken, .. } = snapshot;
    let select = format!("lv_uuid=\"{}\" && lv_tags=\"{TAG}\" && lv_tags=\"{OF}{}\"", volume.lv_uuid, taken.of);
    run("lvremove", &["--yes", "--select", &select, &volume.name()]).map(drop)
}

/// Returns the UUIDs of the volume group and of the logical volume that is the block device with this number; `None` if
/// it is not one of LVM.
pub(super) fn of_device(device: Dev) -> Result<Option<(Id, Id)>> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/dev/block/{major}:{minor}/dm/uuid");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(uuids(text.trim_end())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {path}")),
    }
}

/// Reads the UUID of a device.
fn uuids(text: &str) -> Option<(Id, Id)> {
    let both = text.strip_prefix(DEVICE)?;
    // Devices for LVM itself have a suffix.
    let is_plain = both.len() == 2 * UUID && both.bytes().all(|letter| letter.is_ascii_alphanumeric());
    let (group, volume) = both.split_at_checked(UUID).filter(|_| is_plain)?;
    Some((grouped(group), grouped(volume)))
}

/// Returns the UUID as LVM's programs write it.
fn grouped(uuid: &str) -> Id {
    let mut letters = uuid.chars();
    let groups: Vec<String> = GROUPS.iter().map(|length| letters.by_ref().take(*length).collect()).collect();
    groups.join("-").into()
}

/// Executes one of LVM's programs, without a shell, and returns its output.
fn run(name: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let program = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let Some(program) = program else {
        bail!("the program {name} is missing, which thin volumes need; install LVM (the Debian package is lvm2)");
    };
    let output = Command::new(&program)
        .args(arguments)
        .env_clear()
        // The output has the same language and the same searched directories for everyone.
        .env("LC_ALL", "C")
        .env("PATH", FOLDERS.join(":"))
        // It would report descriptors that this process got from its parent.
        .env("LVM_SUPPRESS_FD_WARNINGS", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot execute {}", program.display()))?;
    if !output.status.success() {
        bail!("{name} failed ({}): {}", output.status, message(&output.stderr));
    }
    Ok(output.stdout)
}

/// Returns what a program wrote, on one line.
fn message(text: &[u8]) -> String {
    let text = text.get(..MESSAGE).unwrap_or(text);
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `lvs` 2.03.16 reported of a group with a pool, a volume on ext4, a snapshot of it, and a linear volume.
    const REPORT: &str = include_str!("lvs.json");
    const ORIGIN: &str = "CcrF1p-iMVD-Z4OK-Ph70-zS8J-IyWr-1yOdXP";
    const SNAPSHOT: &str = "0eA3R5-0unh-WfB2-dy09-TUz1-SbSk-1wP8AX";

    fn parsed(text: &str) -> Volumes {
        Volumes::parse(text.as_bytes()).expect("it is a report")
    }

    /// The report with another text in place of one that occurs once.
    fn changed(from: &str, to: &str) -> Volumes {
        assert_eq!(REPORT.matches(from).count(), 1, "{from}");
        parsed(&REPORT.replace(from, to))
    }

    #[test]
    fn a_report_has_the_volumes_and_the_snapshot() {
        let volumes = parsed(REPORT);
        let origin = volumes.find(ORIGIN).expect("it is reported");
        assert!(origin.is_thin() && origin.name() == "guest/ext4");
        assert_eq!(origin.device(), Some((Path::new("/dev/mapper/guest-ext4"), rustix::fs::makedev(253, 4))));
        let all = volumes.snapshots(ORIGIN);
        assert_eq!(all.len(), 1);
        let Taken { moment, name, of, own } = &all[0].taken;
        assert_eq!((*moment, name.as_str(), &**of), (1_795_852_031, "@GMT-2026.11.28-07.47.11", ORIGIN));
        assert_eq!((own.as_deref(), all[0].state), (Some(SNAPSHOT), State::Own));
        let plain = volumes.find("6D9Ki6-ClG3-UuHe-Ev5i-2mn2-82Tz-4fWWjY").expect("it is reported");
        assert!(!plain.is_thin() && plain.layout() == "linear");
        let hidden = volumes.find("gi3glQ-OYM3-HDFR-uJ5Y-RWXC-vOGn-y01dgF").expect("it is reported");
        assert_eq!((hidden.name().as_str(), hidden.device()), ("guest/lvol0_pmspare", None));
        assert!(volumes.snapshots(SNAPSHOT).is_empty() && volumes.find("").is_none());
        for text in ["", "{}", "[]", r#"{"report":[{"lv":[{"vg_name":"guest"}]}]}"#] {
            assert!(Volumes::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parsed(r#"{"report":[{"lv":[]}]}"#).find(ORIGIN).is_none());
    }

    #[test]
    fn only_a_read_only_snapshot_of_the_volume_with_all_tags_is_one_to_remove() {
        let state = |volumes: Volumes| volumes.snapshots(ORIGIN).first().map(|snapshot| snapshot.state);
        let of = format!("frevo-of.{ORIGIN}");
        assert_eq!(state(changed("\"read-only\"", "\"writeable\"")), Some(State::Writable));
        let origin = format!("\"origin_uuid\":\"{ORIGIN}\"");
        assert_eq!(state(changed(&origin, "\"origin_uuid\":\"\"")), Some(State::Former));
        assert_eq!(state(changed(",frevo-snapshot", "")), None);
        assert_eq!(state(changed(",frevo-snapshot", ",frevo-snapshots")), None);
        assert_eq!(state(changed("frevo-at.2026.11.28-07.47.11,", "")), None);
        assert_eq!(state(changed("frevo-at.2026.11.28", "frevo-at.2026.13.28")), None);
        assert_eq!(state(changed("frevo-at.2026", "frevo-at./../2026")), None);
        assert_eq!(state(changed(&of, "frevo-of.6D9Ki6-ClG3-UuHe-Ev5i-2mn2-82Tz-4fWWjY")), None);
        // Tags on the volume itself make it no snapshot.
        let own = format!("\"lv_uuid\":\"{SNAPSHOT}\"");
        assert_eq!(state(changed(&own, &format!("\"lv_uuid\":\"{ORIGIN}\""))), None);
    }

    #[test]
    fn a_pool_that_is_nearly_full_is_refused() {
        let check = |volumes: Volumes| {
            let origin = volumes.find(ORIGIN).expect("it is reported");
            volumes.check_pool(origin).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(check(parsed(REPORT)), Ok(()));
        assert_eq!(check(changed("\"47.26\"", "\"90.00\"")), Ok(()));
        for (from, to, expected) in [
            ("\"47.26\"", "\"90.01\"", "guest/pool is full to 90.01 % of its data, "),
            ("\"47.26\"", "\"100.00\"", "`lvextend --size +10G guest/pool`"),
            ("\"14.16\"", "\"93.75\"", "`lvextend --poolmetadatasize +1G guest/pool`"),
            ("\"47.26\"", "\"\"", "activate the pool"),
        ] {
            let said = check(changed(from, to)).expect_err("it is refused");
            assert!(said.contains(expected), "{to}: {said}");
        }
        let faulty = REPORT.replace("\"lv_health_status\":\"\"", "\"lv_health_status\":\"out_of_data\"");
        assert!(check(parsed(&faulty)).is_err_and(|said| said.contains("reports `out_of_data`")));
    }

    #[test]
    fn the_uuid_of_a_device_has_those_of_the_group_and_of_the_volume() {
        let uuid = "LVM-Bz8pBM4WhRmOIPlLmvcZLLr7cLRCYyZtCcrF1piMVDZ4OKPh70zS8JIyWr1yOdXP";
        let group: Id = "Bz8pBM-4WhR-mOIP-lLmv-cZLL-r7cL-RCYyZt".into();
        assert_eq!(uuids(uuid), Some((group, ORIGIN.into())));
        for other in ["", "CRYPT-LUKS2-00112233-data", &uuid[..67], &format!("{uuid}-tpool"), &format!("{uuid}a")] {
            assert_eq!(uuids(other), None, "{other}");
        }
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(message(b"  one\n\n  two  \n"), "one; two");
        assert_eq!(message(&[b'x'; 2 * MESSAGE]).len(), MESSAGE);
    }
}

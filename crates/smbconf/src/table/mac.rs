//! The extensions for macOS, as in Samba's module fruit.

use std::sync::Arc;

use server::name::CharacterMap;
use server::policy::{MacPolicy, MacServer, MacStreams, MetadataPlace, ResourcePlace, Share};

use super::{BOOL, BOOL_OR_AUTO, BYTES, Kind, Parameter, TEXT, global, share};
use crate::problem::{Code, warning};
use crate::reader::{Reader, ValueReader};
use crate::share::modules;

/// The module.
const FRUIT: &str = "fruit";

const NFS_ACES: Parameter =
    global("fruit:nfs_aces", BOOL, "yes", "Show Macs the UNIX mode in security descriptors, and let them set it.")
        .read_by_others();

const COPYFILE: Parameter =
    global("fruit:copyfile", BOOL, "no", "Copy whole files with their streams when Macs request it.").read_by_others();

const MODEL: Parameter =
    global("fruit:model", TEXT, "MacSamba", "The model that Macs show as the server's icon.").read_by_others();

const RESOURCE: Parameter = share(
    "fruit:resource",
    Kind::Choice(&[&["file"], &["xattr"], &["stream"]]),
    "file",
    "Where resource forks are stored: AppleDouble files, or a stream. With xattr, the share has no extensions.",
)
.also(&["fruit:ressource"])
.read_by_others();

const METADATA: Parameter = share(
    "fruit:metadata",
    Kind::Choice(&[&["netatalk"], &["stream"]]),
    "netatalk",
    "Where the Finder info is stored: the attribute of Netatalk, or a stream.",
)
.read_by_others();

const ENCODING: Parameter = share(
    "fruit:encoding",
    Kind::Choice(&[&["private"], &["native"]]),
    "private",
    "How characters are stored that Windows forbids: as Macs send them, or as themselves (needs catia).",
)
.read_by_others();

const VETO: Parameter =
    share("fruit:veto_appledouble", BOOL, "yes", "Hide AppleDouble files, if resource forks are in them.")
        .read_by_others();

const MAX_SIZE: Parameter =
    share("fruit:time machine max size", BYTES, "0", "The size of the volume that Macs see; 0: the actual one.")
        .read_by_others();

const TIME_MACHINE: Parameter =
    share("fruit:time machine", BOOL, "no", "The share is for backups of Time Machine.").read_by_others();

const RSIZE: Parameter =
    share("readdir_attr:aapl_rsize", BOOL, "yes", "Show Macs the length of resource forks in listings.")
        .read_by_others();

const FINDER_INFO: Parameter =
    share("readdir_attr:aapl_finder_info", BOOL, "yes", "Show Macs the Finder info in listings.").read_by_others();

const MAX_ACCESS: Parameter =
    share("readdir_attr:aapl_max_access", BOOL, "yes", "Show Macs the user's rights in listings; no: all rights.")
        .read_by_others();

const POSIX_RENAME: Parameter =
    share("fruit:posix_rename", BOOL, "yes", "Let Macs rename directories in which files are open.").read_by_others();

const ZERO_FILE_ID: Parameter =
    share("fruit:zero_file_id", BOOL, "yes", "Do not tell Macs the ids of files on disk.").read_by_others();

const WIPE: Parameter = share(
    "fruit:wipe_intentionally_left_blank_rfork",
    BOOL,
    "no",
    "Discard a resource fork without information when an AppleDouble file is converted.",
)
.read_by_others();

const DELETE: Parameter = share(
    "fruit:delete_empty_adfiles",
    BOOL,
    "no",
    "Delete an AppleDouble file without a resource fork when it is converted.",
)
.read_by_others();

const LOCKING: Parameter = share(
    "fruit:locking",
    Kind::Choice(&[&["none"], &["netatalk"]]),
    "none",
    "netatalk: exchange share modes with Netatalk on this machine, by locks in the kernel.",
)
.read_by_others();

const CONVERT: Parameter =
    share("fruit:convert_adouble", BOOL, "yes", "Convert AppleDouble files that Macs wrote to streams.")
        .read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    global("fruit:aapl", BOOL, "yes", "Offer the extensions of macOS (AAPL) on shares with the module fruit.")
        .reads(|value, global| global.policy.mac = server(value)),
    NFS_ACES,
    COPYFILE,
    MODEL,
    share("frevo:mac", BOOL_OR_AUTO, "auto", "The extensions of macOS; auto: if vfs objects has fruit. Not in Samba.")
        .reads(read),
    RESOURCE,
    METADATA,
    ENCODING,
    TIME_MACHINE,
    MAX_SIZE,
    RSIZE,
    FINDER_INFO,
    MAX_ACCESS,
    POSIX_RENAME,
    ZERO_FILE_ID,
    VETO,
    WIPE,
    DELETE,
    CONVERT,
    LOCKING,
];

fn server(aapl: ValueReader<'_>) -> MacServer {
    MacServer {
        offered: false,
        aapl: aapl.boolean(),
        nfs_aces: aapl.of(&NFS_ACES).boolean(),
        copyfile: aapl.of(&COPYFILE).boolean(),
        model: aapl.of(&MODEL).text(),
    }
}

/// Returns whether the share has the extensions, and reports why it has none.
fn is_on(switch: ValueReader<'_>) -> bool {
    let asked = match switch.choice().as_str() {
        "auto" => modules::are_asked_for(&switch.section, FRUIT),
        choice => choice == "yes",
    };
    asked && has_streams(switch) && has_place(switch)
}

fn has_streams(switch: ValueReader<'_>) -> bool {
    let has = switch.of(&crate::table::share::VFS_OBJECTS);
    let has = !has.is_set() || modules::are_asked_for(&switch.section, "streams_xattr");
    if !has {
        let problem = warning(Code::Contradiction, "the share has no extensions for macOS, because it has no streams");
        switch.report(problem.remedy("add `streams_xattr` to `vfs objects`, or write `frevo:mac = no`"));
    }
    has
}

fn has_place(switch: ValueReader<'_>) -> bool {
    let place = switch.of(&RESOURCE);
    if place.choice() != "xattr" {
        return true;
    }
    let message = "the share has no extensions for macOS with `fruit:resource = xattr`, which Linux does not support";
    let remedy = "write `fruit:resource = stream`, or `file` if the share has AppleDouble files with resource forks";
    place.report(warning(Code::NotServed, message).remedy(remedy));
    false
}

fn read(switch: ValueReader<'_>, share: &mut Share) {
    if !is_on(switch) {
        return;
    }
    let is = |parameter| switch.of(parameter).boolean();
    let most = switch.of(&MAX_SIZE).bytes();
    share.mac = Some(Arc::new(MacPolicy {
        lists_fork: is(&RSIZE),
        lists_finder_info: is(&FINDER_INFO),
        lists_access: is(&MAX_ACCESS),
        hides_files_beside: is(&VETO),
        converts_files: is(&CONVERT),
        wipes_blank_forks: is(&WIPE),
        removes_empty_files: is(&DELETE),
        posix_rename: is(&POSIX_RENAME),
        zero_file_id: is(&ZERO_FILE_ID),
        netatalk_locks: switch.of(&LOCKING).choice() == "netatalk",
        time_machine: is(&TIME_MACHINE),
        time_machine_max_size: (most > 0).then_some(most),
    }));
}

/// Sets what follows from the parameters of other areas: colons in names of streams, the names of AppleDouble files,
/// which clients do not see, and what Time Machine needs, whatever the section says: opens that survive a lost
/// connection.
pub(crate) fn enforce(share: &mut Share) {
    if let Some(streams) = &mut share.streams {
        streams.has_colons = share.names.characters.yields(':');
    }
    let has_files = share.streams.as_ref().and_then(|streams| streams.mac).is_some_and(MacStreams::has_files_beside);
    if has_files && share.mac.as_ref().is_some_and(|mac| mac.hides_files_beside) {
        share.names.veto_files.push("._*".to_owned());
    }
    if share.mac.as_ref().is_some_and(|mac| mac.time_machine) {
        share.handles.durable_handles = true;
        (share.caching.kernel_oplocks, share.locks.posix_locking) = (false, false);
    }
}

/// Returns where the streams of macOS are stored; `None` if the share has no extensions.
pub(super) fn streams(section: &Reader<'_>, share: &Share) -> Option<MacStreams> {
    share.mac.as_ref()?;
    let metadata = match section.value(&METADATA).choice().as_str() {
        "stream" => MetadataPlace::Stream,
        _ => MetadataPlace::Netatalk,
    };
    let resource = match section.value(&RESOURCE).choice().as_str() {
        "stream" => ResourcePlace::Stream,
        _ => ResourcePlace::File,
    };
    Some(MacStreams { metadata, resource })
}

/// Returns the characters that are stored as themselves, if the share asks for that.
pub(super) fn native(section: &Reader<'_>) -> Option<CharacterMap> {
    let asked = modules::are_asked_for(section, FRUIT) && modules::are_asked_for(section, "catia");
    if !asked || section.value(&ENCODING).choice() != "native" {
        return None;
    }
    let controls = (0x01..=0x1f).map(|unit| (unit, 0xf000 | unit));
    let forbidden = [
        (0x22, 0xf020),
        (0x2a, 0xf021),
        (0x3a, 0xf022),
        (0x3c, 0xf023),
        (0x3e, 0xf024),
        (0x3f, 0xf025),
        (0x5c, 0xf026),
        (0x7c, 0xf027),
    ];
    Some(CharacterMap::new(controls.chain(forbidden)))
}

//! File names, attributes, streams, and when data reaches the disk.

use std::time::Duration;

use server::name::{Capitals, CharacterMap};
use server::policy::Share;
use server::policy::stream_layout::Layout;

use super::mac;
use super::share::VFS_OBJECTS;
use super::{BOOL, BOOL_OR_AUTO, COUNT, Kind, LIST, PATTERNS, Parameter, TEXT, global, share};
use crate::problem::{Code, warning};
use crate::reader::ValueReader;
use crate::share::modules;

const READ_ONLY: Kind =
    Kind::Choice(&[&["yes", "true", "on", "1"], &["no", "false", "off", "0"], &["permissions", "perms"]]);

const DEFAULT_CASE: Kind = Kind::Choice(&[&["lower"], &["upper"]]);

const INSECURE_WIDE_LINKS: Parameter =
    global("allow insecure wide links", BOOL, "no", "Allow wide links even with unix extensions.").read_by_others();

const UNIX_EXTENSIONS: Parameter =
    global("smb1 unix extensions", BOOL, "yes", "Only disables wide links, as in Samba; SMB1 is not served.")
        .also(&["unix extensions"])
        .read_by_others();

const STREAM_TYPE: Parameter =
    share("streams_xattr:store_stream_type", BOOL, "yes", "Append :$DATA to the names of these attributes.")
        .read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    share("case sensitive", BOOL_OR_AUTO, "auto", "Distinguish upper and lower case; auto means no.")
        .also(&["case sig names"])
        .reads(|value, share| share.names.case_sensitive = value.choice() == "yes"),
    share("preserve case", BOOL, "yes", "Give new files their names as clients spell them.")
        .reads(|value, share| share.names.preserve_case = value.boolean()),
    share("short preserve case", BOOL, "yes", "Likewise for names of the 8.3 form, if preserve case is set.")
        .reads(|value, share| share.names.short_preserve_case = value.boolean()),
    share("default case", DEFAULT_CASE, "lower", "The case of new names that are not preserved.")
        .reads(|value, share| share.names.default_case = default_case(value)),
    share("follow symlinks", BOOL, "yes", "Follow symbolic links that stay inside the share.")
        .reads(|value, share| share.names.follow_symlinks = value.boolean()),
    share("wide links", BOOL, "no", "Follow symbolic links out of the share; see allow insecure wide links.")
        .reads(|value, share| share.names.wide_links = wide_links(value)),
    INSECURE_WIDE_LINKS,
    UNIX_EXTENSIONS,
    share("hide dot files", BOOL, "yes", "Show files whose names begin with a dot as hidden.")
        .reads(|value, share| share.names.hide_dot_files = value.boolean()),
    share("hide files", PATTERNS, "", "Show files with matching names as hidden.")
        .reads(|value, share| share.names.hide_files = value.patterns()),
    share("catia:mappings", LIST, "", "Pairs of a character on the server and what clients see, such as 0x22:0xa8.")
        .reads(|value, share| share.names.characters = characters(value)),
    share("veto files", PATTERNS, "", "Hide files with matching names from clients completely.")
        .reads(|value, share| share.names.veto_files = value.patterns()),
    share("delete veto files", BOOL, "no", "Delete a directory together with remaining vetoed files.")
        .reads(|value, share| share.names.delete_veto_files = value.boolean()),
    share("hide unreadable", BOOL, "no", "Omit files that the user cannot read from listings.")
        .reads(|value, share| share.names.hide_unreadable = value.boolean()),
    share("hide unwriteable files", BOOL, "no", "Omit files that the user cannot write from listings.")
        .reads(|value, share| share.names.hide_unwriteable_files = value.boolean()),
    share("hide new files timeout", COUNT, "0", "Omit files from listings for so many seconds after the last write.")
        .reads(|value, share| share.names.hide_new_files_timeout = value.number().unwrap_or(u32::MAX)),
    share("hide special files", BOOL, "no", "Omit devices, sockets and FIFOs from listings.")
        .reads(|value, share| share.names.hide_special_files = value.boolean()),
    share("store dos attributes", BOOL, "yes", "Store DOS attributes and the creation time in user.DOSATTRIB.")
        .reads(|value, share| share.attributes.store_dos_attributes = value.boolean()),
    share("map archive", BOOL, "yes", "Store ARCHIVE in the owner's x bit if attributes are not stored.")
        .reads(|value, share| share.attributes.map_archive = value.boolean()),
    share("map system", BOOL, "no", "Store SYSTEM in the group's x bit if attributes are not stored.")
        .reads(|value, share| share.attributes.map_system = value.boolean()),
    share("map hidden", BOOL, "no", "Store HIDDEN in the others' x bit if attributes are not stored.")
        .reads(|value, share| share.attributes.map_hidden = value.boolean()),
    share("map readonly", READ_ONLY, "no", "Show a file that its owner cannot write as READONLY.")
        .reads(|value, share| share.attributes.map_read_only = map_read_only(value)),
    share("delete readonly", BOOL, "no", "Allow deletion of READONLY files.")
        .reads(|value, share| share.attributes.delete_readonly = value.boolean()),
    share("dos filemode", BOOL, "no", "Let users with write access to a file change its permissions.")
        .reads(|value, share| share.acls.dos_filemode = value.boolean()),
    share(
        "streams_xattr:prefix",
        TEXT,
        "user.DosStream.",
        "Name prefix of the attributes that store alternate streams.",
    )
    .reads(|value, share| share.streams = streams(value, share)),
    STREAM_TYPE,
    share("ea support", BOOL, "yes", "Store extended attributes in user.* attributes.")
        .reads(|value, share| share.attributes.ea_support = value.boolean()),
    share("strict sync", BOOL, "yes", "Complete a client's flush only after the data is on disk.")
        .reads(|value, share| share.sync.strict_sync = value.boolean()),
    share("sync always", BOOL, "no", "Complete each write only after the data is on disk.")
        .reads(|value, share| share.sync.sync_always = value.boolean()),
    share(
        "smbd:writetimeupdatedelay",
        Kind::Integer(0, i32::MAX as i64),
        "0",
        "Microseconds until a write updates the write time; Samba: 2000000.",
    )
    .reads(|value, share| share.sync.write_time_delay = Duration::from_micros(value.number().unwrap_or(0))),
    share("strict allocate", BOOL, "no", "Reserve disk space when a client sets the allocation size.")
        .reads(|value, share| share.sync.strict_allocate = value.boolean()),
];

/// Returns whether wide links are on. As in Samba, they stay off while `unix extensions` are on, unless `allow insecure
/// wide links` is also set.
fn wide_links(value: ValueReader<'_>) -> bool {
    let (wanted, insecure) = (value.boolean(), value.of(&INSECURE_WIDE_LINKS).boolean());
    let allowed = !value.of(&UNIX_EXTENSIONS).boolean() || insecure;
    if wanted && !allowed {
        let message = "`wide links` stay off: with `unix extensions` clients could create links out of the share";
        let remedy = "set `allow insecure wide links = yes` or `unix extensions = no` in [global] to enable them";
        value.report(warning(Code::Contradiction, message).remedy(remedy));
    }
    wanted && allowed
}

fn default_case(value: ValueReader<'_>) -> Capitals {
    if value.choice() == "upper" { Capitals::Upper } else { Capitals::Lower }
}

/// Returns the mapping of characters; the values of a share without the module `catia` are checked, too.
fn characters(value: ValueReader<'_>) -> CharacterMap {
    if let Some(native) = mac::native(&value.section) {
        return native;
    }
    let character = |text: &str| {
        let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u16::from_str_radix(digits, 16)
            .ok()
            .filter(|unit| is_number && *unit != 0 && char::from_u32(u32::from(*unit)).is_some())
    };
    let mut pairs = Vec::new();
    for element in value.plain_list() {
        let pair = element.split_once(':').and_then(|(server, client)| character(server).zip(character(client)));
        match pair {
            Some(pair) => pairs.push(pair),
            None => value.bad_value(&element, "pairs of characters from 0x1 to 0xffff, such as 0x22:0xa8"),
        }
    }
    if modules::are_asked_for(&value.section, "catia") { CharacterMap::new(pairs) } else { CharacterMap::default() }
}

fn map_read_only(value: ValueReader<'_>) -> bool {
    match value.choice().as_str() {
        "permissions" => {
            let problem =
                warning(Code::NotServed, "`map readonly` = permissions is treated as yes: the owner's w bit decides");
            value.report(problem.remedy("write yes or no"));
            true
        }
        other => other == "yes",
    }
}

/// Returns the layout of alternate streams; `None` if `vfs objects` is set and does not contain `streams_xattr`.
fn streams(prefix: ValueReader<'_>, share: &Share) -> Option<Layout> {
    if prefix.of(&VFS_OBJECTS).is_set() && !modules::are_asked_for(&prefix.section, "streams_xattr") {
        return None;
    }
    let text = prefix.text();
    // Users may only write attributes in this namespace.
    if !text.starts_with("user.") || text.len() > 64 {
        prefix.bad_value(&text, "a text of at most 64 bytes that begins with `user.`");
        return Some(Layout::default());
    }
    let mac = mac::streams(&prefix.section, share);
    Some(Layout { prefix: text, typed: prefix.of(&STREAM_TYPE).boolean(), has_colons: false, mac })
}

//! Stage two, one share: its section -> [`server::policy::Share`].

pub(super) mod modules;
mod volume;

use std::path::Path;

use server::policy::{Share, fold};

use super::problem::{Code, Problem, error, note, warning, without_effect};
use super::reader::Reader;
use super::resolve;
use super::table::files::{PREEXEC, PREEXEC_CLOSE, ROOT_PREEXEC, ROOT_PREEXEC_CLOSE};
use super::table::share::{OVERRIDE, SHARED_PATH};
use super::table::{self, Parameter};

/// Builds the share; `None` if the section is not one that is served.
pub(super) fn build(reader: &Reader<'_>, section: &resolve::Share) -> Option<Share> {
    if let Some(feature) = resolve::special(&section.name) {
        reader.report_share(special(section, feature));
        return None;
    }
    let servable = modules::judge(reader, section) & decides_access_itself(reader, section);
    let mut share = Share::new(&section.name, "");
    table::read_share(reader, &mut share);
    table::mac::enforce(&mut share);
    volume::restrict(reader, &mut share);
    share.available &= servable;
    let is_directory = share.storage.is_directory() && share.path_template.is_none() && fold(&share.name) != "homes";
    let is_directory = is_directory && share.printing.is_none();
    if share.available && is_directory && is_root(&share.path) {
        reader.value(&SHARED_PATH).report(root_shared(section, &share));
    }
    Some(share)
}

/// Returns whether no command decides which clients are admitted; otherwise, the share is not served.
fn decides_access_itself(reader: &Reader<'_>, section: &resolve::Share) -> bool {
    let value = |it: &Parameter| section.settings.0.get(it.name).or_else(|| reader.global.0.get(it.name));
    let overridden = reader.value(&OVERRIDE).list().iter().any(|element| element.eq_ignore_ascii_case("preexec"));
    for (command, close) in [(PREEXEC, PREEXEC_CLOSE), (ROOT_PREEXEC, ROOT_PREEXEC_CLOSE)] {
        let is_run = value(&command).is_some_and(|value| !value.text.is_empty());
        let Some(closes) = value(&close).filter(|value| is_run && value.text == "yes" && !overridden) else { continue };
        let message = format!("the share [{}] is not served: `{}` decides who may connect", section.name, command.name);
        let remedy = format!(
            "restrict the share by `valid users` or `hosts allow`; to serve it without the command, write \
             `{} = preexec` into [{}]",
            OVERRIDE.name, section.name
        );
        let problem = error(Code::ShareNotServed, message).remedy(remedy).of(close.name, "yes").in_share(&section.name);
        reader.problems.borrow_mut().add(match &closes.place {
            Some(place) => problem.at(place),
            None => problem,
        });
        return false;
    }
    true
}

/// Returns the problem of a section that is not served. The sections of distributions' own files are notes.
fn special(section: &resolve::Share, feature: &'static str) -> Problem {
    let message = format!("the section [{}] is not supported: {feature}", section.name);
    match fold(&section.name).as_str() {
        "print$" => without_effect(Code::NotServed, format!("[{}]", section.name), feature),
        "ipc$" => warning(Code::NotServed, message).remedy(REMOVE_SECTION),
        _ => warning(Code::NotServed, message).remedy(REMOVE_SECTION).loses("", Some(&section.name)),
    }
}

const REMOVE_SECTION: &str = "the other shares are served; the section may be removed";

fn is_root(path: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|path| path == Path::new("/"))
}

/// Returns the problem of a share of the host's root directory.
fn root_shared(section: &resolve::Share, share: &Share) -> Problem {
    let message = format!("the share [{}] exposes the whole file system of this host", section.name);
    if share.access.guest_ok && (!share.access.read_only || !share.access.write_list.is_empty()) {
        warning(Code::RootShared, message + ", and guests can write to it with the guest account's rights")
            .remedy("share a subdirectory, or set `guest ok = no` and `valid users`")
    } else if share.access.guest_ok {
        warning(Code::RootShared, message + ", and guests can read it with the guest account's rights")
            .remedy("share a subdirectory, or set `guest ok = no` and `valid users`")
    } else {
        note(Code::RootShared, message).remedy("share a subdirectory, unless the share is for administrators")
    }
}

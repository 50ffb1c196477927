//! `vfs objects` and `frevo:without`: how the modules that a share names are treated.

use crate::problem::{Code, Problem, error, note, warning, without_effect};
use crate::reader::Reader;
use crate::resolve::{self, WITHOUT};
use crate::table::share::{OVERRIDE, VFS_OBJECTS};
use crate::table::{MODULES, Module, Status, fold_name};

/// The module of shares in volumes.
const GLUSTERFS: &str = "glusterfs";

/// A missing module that the share must not be served without.
struct Missing {
    name: String,
    /// What the module does, as the end of a sentence about it.
    why: String,
}

/// Returns the module of an element of `vfs objects`: `module:instance` is a second instance of the same module.
fn module_of(element: &str) -> String {
    fold_name(element.split(':').next().unwrap_or_default())
}

/// Returns whether the share names `module`.
pub(crate) fn are_asked_for(reader: &Reader<'_>, module: &str) -> bool {
    reader.value(&VFS_OBJECTS).list().iter().any(|element| module_of(element) == module)
}

/// Returns whether the share is in a GlusterFS volume.
pub(crate) fn is_in_volume(reader: &Reader<'_>) -> bool {
    are_asked_for(reader, GLUSTERFS) && !overridden(reader).iter().any(|module| module == GLUSTERFS)
}

/// Returns the modules that `frevo:without` names.
fn overridden(reader: &Reader<'_>) -> Vec<String> {
    reader.value(&OVERRIDE).list().iter().map(|element| module_of(element)).collect()
}

/// Reports how each module that the share names is treated. Returns `false` if the share must not be served without one
/// of them.
pub(super) fn judge(reader: &Reader<'_>, section: &resolve::Share) -> bool {
    let overridden = overridden(reader);
    let (mut asked, mut missing) = (Vec::new(), Vec::new());
    for element in reader.value(&VFS_OBJECTS).list() {
        let name = module_of(&element);
        let module = MODULES.iter().find(|module| module.name == name);
        match lacking(module).filter(|_| !overridden.contains(&name)) {
            Some(_) if asked.contains(&name) => {}
            Some(why) => missing.push(Missing { name: name.clone(), why }),
            None => problem_of(&element, module, &section.name)
                .into_iter()
                .for_each(|problem| reader.value(&VFS_OBJECTS).report(problem)),
        }
        asked.push(name);
    }
    useless_overrides(reader, &overridden, &asked);
    check_volume(reader, &asked);
    if missing.is_empty() {
        return true;
    }
    refuse(reader, section, &missing);
    false
}

/// Returns why shares are not served without the module, according to the table.
fn lacking(module: Option<&Module>) -> Option<String> {
    match module {
        None => Some("is unknown".to_owned()),
        Some(module) => module.vital.map(|why| match module.status {
            Status::NotServed(feature) => format!("{why} ({feature})"),
            _ => why.to_owned(),
        }),
    }
}

/// Returns the message about a module that the share is served with, or without.
fn problem_of(element: &str, module: Option<&Module>, share: &str) -> Option<Problem> {
    let vital = module.is_none_or(|module| module.vital.is_some());
    match module.map(|module| module.status) {
        Some(Status::Served) => None,
        Some(Status::Accepted(reason)) => {
            Some(without_effect(Code::Accepted, format!("the module `{element}`"), reason).remedy("it may be removed"))
        }
        Some(Status::NotServed(feature)) if !vital => {
            let message = format!("the module `{element}` is not supported: {feature}");
            Some(warning(Code::NotServed, message).remedy(WITHOUT).loses(feature, Some(share)))
        }
        Some(Status::NotServed(feature)) => {
            let message = format!("the share is served without the module `{element}`: {feature}");
            Some(warning(Code::NotServed, message).remedy(format!("no action needed: `{}` allows this", OVERRIDE.name)))
        }
        None => {
            let message = format!("the share is served without the unknown module `{element}`");
            Some(warning(Code::NotServed, message).remedy(format!("no action needed: `{}` allows this", OVERRIDE.name)))
        }
    }
}

/// Reports that the files are not in the volume, or that Samba ignores modules because the storage is not the last one.
fn check_volume(reader: &Reader<'_>, asked: &[String]) {
    let Some(at) = asked.iter().position(|name| name == GLUSTERFS) else { return };
    let after: Vec<_> = asked[at..].iter().filter(|name| *name != GLUSTERFS).map(|name| format!("`{name}`")).collect();
    if !is_in_volume(reader) {
        let message = "the share is served without the module `glusterfs`: `path` is a directory of this host";
        let remedy = format!("no action needed: `{}` allows this", OVERRIDE.name);
        reader.value(&VFS_OBJECTS).report(warning(Code::NotServed, message).remedy(remedy));
    } else if !after.is_empty() {
        let after = after.join(", ");
        let message =
            format!("Samba may ignore {after} after `glusterfs` in `{}`, and Frevo does not", VFS_OBJECTS.name);
        let remedy = "write `glusterfs` last, or remove the modules after it";
        reader.value(&VFS_OBJECTS).report(warning(Code::Contradiction, message).remedy(remedy));
    }
}

/// Reports the names in the share's own `frevo:without` that have no effect, so that typing mistakes are found.
fn useless_overrides(reader: &Reader<'_>, overridden: &[String], asked: &[String]) {
    if !reader.value(&OVERRIDE).is_set_in_share() {
        return;
    }
    for name in overridden.iter().filter(|name| !asked.contains(name) && *name != "preexec") {
        let problem =
            note(Code::Accepted, format!("`{}` names `{name}`, which is not in `{}`", OVERRIDE.name, VFS_OBJECTS.name));
        reader.value(&OVERRIDE).report(problem.remedy("correct or remove the name"));
    }
}

fn refuse(reader: &Reader<'_>, section: &resolve::Share, missing: &[Missing]) {
    let list = missing.iter().map(|it| format!("`{}`, which {}", it.name, it.why)).collect::<Vec<_>>().join("; ");
    let names = missing.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" ");
    let message = format!("the share [{}] is not served: Frevo does not have the module {list}", section.name);
    let remedy = format!(
        "serve it with Samba; to serve it without the module, write `{} = {names}` into [{}]",
        OVERRIDE.name, section.name
    );
    let problem = error(Code::ShareNotServed, message).remedy(remedy).of(&section.name, &names);
    let problem = problem.in_share(&section.name);
    let place = reader.value(&VFS_OBJECTS).place();
    reader.problems.borrow_mut().add(match &place {
        Some(place) => problem.at(place),
        None => problem,
    });
}

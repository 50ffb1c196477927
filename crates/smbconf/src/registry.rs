//! Samba's registry configuration (`include = registry`, `config backend = registry`, `registry shares`), from a copy
//! in a file: the output of `net conf list` in `registry.conf`, next to the configuration file.
//!
//! As in Samba, the `[global]` of the registry is read at the position of the line, and its shares are added to those
//! of the configuration file, which come first.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::problem::{Code, Place, error, warning};
use super::raw::{Part, Reader};
use super::table::daemon::REGISTRY_SHARES;
use super::table::{find, fold_name};
use super::value::boolean;

/// The name of the copy.
const COPY: &str = "registry.conf";

/// Returns the location of the copy for the configuration in `main`.
fn copy_of(main: &Path) -> PathBuf {
    main.parent().unwrap_or(Path::new("")).join(COPY)
}

impl Reader<'_> {
    /// Reads the registry at the line `name` = registry.
    pub(super) fn registry(&mut self, name: &str, place: &Place) {
        self.wants_registry = Some(place.clone());
        self.read_registry(name, place, Part::Global);
    }

    /// Adds the shares of the registry, after everything else was read.
    pub(super) fn registry_shares(&mut self) {
        let asked =
            self.raw.global.iter().rfind(|it| find(&it.name).is_some_and(|it| it.0.name == REGISTRY_SHARES.name));
        let asked = asked.filter(|it| boolean(&it.value) == Some(true)).and_then(|it| it.place.clone());
        let part = Part::NewShares(self.raw.shares.len());
        match (self.wants_registry.take(), asked) {
            // It was reported where it was included.
            (Some(place), _) if self.has_registry => self.read_registry("include", &place, part),
            (None, Some(place)) => self.read_registry(REGISTRY_SHARES.name, &place, part),
            _ => {}
        }
    }

    fn read_registry(&mut self, name: &str, place: &Place, part: Part) {
        let path = copy_of(&self.main);
        match (self.read_file)(&path) {
            Ok(bytes) => {
                self.has_registry = true;
                self.read_part(&path, &bytes, part);
            }
            Err(why) if why.kind() == ErrorKind::NotFound => {
                let message =
                    format!("`{name}` asks for Samba's registry, of which there is no copy in {}", path.display());
                let remedy = format!(
                    "run `net conf list > {}`, and repeat that after each change of the registry",
                    path.display()
                );
                // The settings of the registry may restrict the shares of this file; its shares do not.
                match part {
                    Part::NewShares(_) => {
                        self.report(warning(Code::NotServed, message).remedy(remedy), place, name, "")
                    }
                    _ => self.report_for_all(error(Code::Unreadable, message).remedy(remedy), place, name, ""),
                }
            }
            Err(why) => {
                let message = format!("cannot read the copy of the registry in {}: {why}", path.display());
                let remedy = "make the file readable, or remove it and the line that asks for the registry";
                self.report_for_all(error(Code::Unreadable, message).remedy(remedy), place, name, "");
            }
        }
    }
}

/// Returns whether the line `name = value` asks for the registry as the configuration.
pub(super) fn is_asked_for(name: &str, value: &str) -> bool {
    ["include", "configbackend"].contains(&fold_name(name).as_str()) && value.eq_ignore_ascii_case("registry")
}

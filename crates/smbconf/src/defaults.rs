//! The values of `[global]` that are the defaults of a share: those before its section, as in Samba. Values that
//! `[global]` sets behind the section do not apply to it.

use super::raw::{Raw, Setting};
use super::resolve::{Settings, Value};
use super::table::{self, Parameter, Scope};
use super::value;

/// The defaults of the sections, in file order.
pub(super) struct Defaults<'r> {
    /// The lines of `[global]` that are left.
    left: std::slice::Iter<'r, Setting>,
    /// The number of lines that were read.
    read: usize,
    /// The values so far.
    present: Settings,
    /// The values at the end of the file, which shares inherit.
    inherited: Vec<(&'static Parameter, Value)>,
}

impl<'r> Defaults<'r> {
    /// For the shares of `raw`, whose `[global]` has the values `global` at the end.
    pub(super) fn new(raw: &'r Raw, global: &Settings) -> Defaults<'r> {
        let inherited = global.0.iter().filter_map(|(name, value)| Some((table::find(name)?.0, value.clone())));
        Defaults {
            left: raw.global.iter(),
            read: 0,
            present: Settings::default(),
            inherited: inherited.filter(|(parameter, _)| parameter.scope == Scope::Share).collect(),
        }
    }

    /// Gives a section the values of `[global]` that a later line changes. `lines` is the number of lines of `[global]`
    /// before the section; `enter` reads one line.
    pub(super) fn give(&mut self, settings: &mut Settings, lines: usize, enter: impl Fn(&mut Settings, &Setting)) {
        for setting in self.left.by_ref().take(lines.saturating_sub(self.read)) {
            enter(&mut self.present, setting);
            self.read += 1;
        }
        if self.left.len() == 0 {
            return;
        }
        for (parameter, last) in &self.inherited {
            let before = self.present.0.get(parameter.name).cloned().unwrap_or_else(|| Value {
                text: value::normalize(parameter.kind, parameter.default).unwrap_or_default(),
                place: None,
            });
            if before.text != last.text {
                settings.0.entry(parameter.name).or_insert(before);
            }
        }
    }
}

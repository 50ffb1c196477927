//! Typed access to a section for stage two: a share's own value, else that of `[global]`, else the table's default.
//!
//! Values were checked against the table earlier, so reading one as its kind cannot fail.

use std::cell::RefCell;

use server::policy::Template;

use super::problem::{Code, Place, Problem, Problems, error, warning};
use super::resolve::{self, Settings, Value};
use super::table::{Parameter, Scope};
use super::value;
use super::variables::ServerVariables;

/// One section, and the collection to which problems are added.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) global: &'a Settings,
    /// `None` for `[global]` itself.
    pub(super) share: Option<&'a resolve::Share>,
    pub(super) variables: &'a ServerVariables<'a>,
    pub(super) problems: &'a RefCell<Problems>,
}

impl<'a> Reader<'a> {
    /// Returns access to the value of `parameter`.
    pub(super) fn value(&self, parameter: &'static Parameter) -> ValueReader<'a> {
        ValueReader { section: *self, parameter }
    }

    /// Reports `problem` at the header of the share's section.
    pub(super) fn report_share(&self, problem: Problem) {
        let Some(share) = self.share else { return };
        let problem = problem.of(&share.name, "").in_share(&share.name);
        self.problems.borrow_mut().add(match &share.place {
            Some(place) => problem.at(place),
            None => problem,
        });
    }
}

/// The value of one parameter in one section.
#[derive(Clone, Copy)]
pub(super) struct ValueReader<'a> {
    pub(super) section: Reader<'a>,
    parameter: &'static Parameter,
}

impl<'a> ValueReader<'a> {
    /// Returns access to the value of another parameter in the same section.
    pub(super) fn of(&self, parameter: &'static Parameter) -> ValueReader<'a> {
        self.section.value(parameter)
    }

    /// Returns the parameter's name.
    pub(super) fn name(&self) -> &'static str {
        self.parameter.name
    }

    /// Returns the value in force if one was set.
    fn find(&self) -> Option<&'a Value> {
        let parameter = self.parameter;
        #[cfg(test)]
        super::tests::READ.with_borrow_mut(|read| read.insert(parameter.name));
        let share = self.section.share.filter(|_| parameter.scope == Scope::Share);
        let own = share.and_then(|share| share.settings.0.get(parameter.name));
        own.or_else(|| self.section.global.0.get(parameter.name))
    }

    /// Returns the value in its normalized spelling.
    pub(super) fn normalized(&self) -> String {
        match self.find() {
            Some(value) => value.text.clone(),
            None => value::normalize(self.parameter.kind, self.parameter.default).unwrap_or_default(),
        }
    }

    /// Returns whether the configuration sets the parameter.
    pub(super) fn is_set(&self) -> bool {
        self.find().is_some()
    }

    /// Returns whether the share itself sets the parameter.
    pub(super) fn is_set_in_share(&self) -> bool {
        self.section.share.is_some_and(|share| share.settings.0.contains_key(self.name()))
    }

    /// Returns the location where the parameter was set.
    pub(super) fn place(&self) -> Option<Place> {
        self.find().and_then(|value| value.place.clone())
    }

    /// Reports `problem` at the line of the parameter.
    pub(super) fn report(&self, problem: Problem) {
        let problem = problem.of(self.name(), &self.normalized());
        let problem = match self.section.share {
            Some(share) => problem.in_share(&share.name),
            None => problem,
        };
        self.section.problems.borrow_mut().add(match self.place() {
            Some(place) => problem.at(&place),
            None => problem,
        });
    }

    /// Reports that `what`, a part of the value, is invalid; `remedy` lists the allowed values.
    pub(super) fn bad_value(&self, what: &str, remedy: &str) {
        let problem = error(Code::BadValue, format!("`{what}` is not a valid value for `{}`", self.name()));
        self.report(problem.remedy(format!("allowed: {remedy}")));
    }

    /// Reports that `what`, a part of the value, is invalid and ignored, as Samba does where nobody gets more rights.
    pub(super) fn ignored_value(&self, what: &str, remedy: &str) {
        let message = format!("`{what}` is not a valid value for `{}`, and is ignored", self.name());
        self.report(warning(Code::BadValue, message).remedy(format!("allowed: {remedy}")));
    }

    pub(super) fn boolean(&self) -> bool {
        self.normalized() == "yes"
    }

    /// Returns a number; `T` must be at least as wide as the range in the table.
    pub(super) fn number<T: TryFrom<i64>>(&self) -> Option<T> {
        self.normalized().parse::<i64>().ok().and_then(|number| T::try_from(number).ok())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.normalized().parse().unwrap_or_default()
    }

    pub(super) fn octal(&self) -> u32 {
        value::octal(&self.normalized()).unwrap_or_default()
    }

    /// Returns the canonical spelling of a choice.
    pub(super) fn choice(&self) -> String {
        self.normalized()
    }

    pub(super) fn patterns(&self) -> Vec<String> {
        value::patterns(&self.normalized())
    }

    /// Returns a list with the server's variables expanded in each element.
    pub(super) fn list(&self) -> Vec<String> {
        self.plain_list().iter().filter_map(|element| self.constant(element)).collect()
    }

    /// Returns a list without expanding variables.
    pub(super) fn plain_list(&self) -> Vec<String> {
        value::list(&self.normalized())
    }

    /// Returns a list whose elements may contain variables of a session.
    pub(super) fn templates(&self) -> Vec<Template> {
        self.plain_list().iter().map(|element| self.fill(element)).collect()
    }

    /// Returns a text with the server's variables expanded; empty, with an error, if it contains a variable of a
    /// session.
    pub(super) fn text(&self) -> String {
        self.constant(&self.normalized()).unwrap_or_default()
    }

    /// Returns a text that is shown to clients, with the server's variables expanded. Variables of a session stay as
    /// they are.
    pub(super) fn shown_text(&self) -> String {
        let template = self.template();
        template.constant().unwrap_or_else(|| {
            let problem = warning(
                Code::Variable,
                format!("`{}` is the same for all clients: its session variables are not expanded", self.name()),
            );
            self.report(problem.remedy("use %h, %L, %D, %S or %$(VARIABLE), or a fixed text"));
            self.normalized()
        })
    }

    /// Returns a text that may contain variables of a session.
    pub(super) fn template(&self) -> Template {
        self.fill(&self.normalized())
    }

    fn fill(&self, text: &str) -> Template {
        let expanded = self.section.variables.expand(text);
        for unknown in &expanded.unknown {
            let message = format!("`{unknown}` is not a variable; `{}` keeps it literally", self.name());
            let remedy = "frevo-smb.conf(5) lists the variables; write %% for a percent sign";
            self.report(warning(Code::Variable, message).remedy(remedy));
        }
        let plain = || Template::parse(&text.replace('%', "%%"));
        Template::parse(&expanded.text).or_else(|_| plain()).expect("doubled percent signs are not variables")
    }

    fn constant(&self, text: &str) -> Option<String> {
        let template = self.fill(text);
        let constant = template.constant();
        if constant.is_none() {
            let letters: Vec<_> = template.variables().map(|variable| format!("%{}", variable.0)).collect();
            let message =
                format!("`{}` cannot contain {}, which differs between sessions", self.name(), letters.join(", "));
            let remedy = "use %h, %L, %D, %S or %$(VARIABLE), or a fixed text";
            self.report(error(Code::Variable, message).remedy(remedy));
        }
        constant
    }
}

//! Typed access to a section for stage two: a share's own value, else that of `[global]`, else the table's default.
//!
//! Values were checked against the table earlier, so reading one as its kind cannot fail.

use std::cell::RefCell;

use server::policy::Template;

use super::problem::{Code, Place, Problem, Problems, error, warning};
use super::resolve::{Settings, Value};
use super::table::{self, Parameter, Scope};
use super::value;
use super::variables::ServerVariables;

/// One section, and the collection to which problems are added.
pub(super) struct Reader<'a> {
    pub(super) global: &'a Settings,
    /// `None` for `[global]` itself.
    pub(super) share: Option<&'a Settings>,
    pub(super) variables: &'a ServerVariables<'a>,
    pub(super) problems: &'a RefCell<Problems>,
}

impl<'a> Reader<'a> {
    /// Returns the table entry of `name`, and the value in force if one was set.
    fn find(&self, name: &str) -> (&'static Parameter, Option<&'a Value>) {
        let (parameter, _) = table::find(name).expect("every parameter that is read is in the table");
        #[cfg(test)]
        super::tests::READ.with_borrow_mut(|read| read.insert(parameter.name));
        let own = self.share.filter(|_| parameter.scope == Scope::Share).and_then(|share| share.0.get(parameter.name));
        (parameter, own.or_else(|| self.global.0.get(parameter.name)))
    }

    /// Returns the value of `name` in its normalized spelling.
    fn text_of(&self, name: &str) -> String {
        let (parameter, value) = self.find(name);
        match value {
            Some(value) => value.text.clone(),
            None => value::normalize(parameter.kind, parameter.default).unwrap_or_default(),
        }
    }

    /// Returns whether the configuration sets `name`.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.find(name).1.is_some()
    }

    /// Returns the location where `name` was set.
    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.find(name).1.and_then(|value| value.place.clone())
    }

    /// Reports `problem` at the line of `name`.
    pub(super) fn report(&self, name: &str, problem: Problem) {
        let problem = problem.of(name, &self.text_of(name));
        self.problems.borrow_mut().add(match self.place(name) {
            Some(place) => problem.at(&place),
            None => problem,
        });
    }

    /// Reports `problem`, if any, at the line of `name`.
    pub(super) fn report_some(&self, name: &str, problem: Option<Problem>) {
        problem.into_iter().for_each(|problem| self.report(name, problem));
    }

    /// Reports that `what`, a part of the value of `name`, is invalid; `remedy` lists the allowed values.
    pub(super) fn bad_value(&self, name: &str, what: &str, remedy: &str) {
        let problem = error(Code::BadValue, format!("`{what}` is not a valid value for `{name}`"));
        self.report(name, problem.remedy(format!("allowed: {remedy}")));
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        self.text_of(name) == "yes"
    }

    /// Returns a number; `T` must be at least as wide as the range in the table.
    pub(super) fn number<T: TryFrom<i64>>(&self, name: &str) -> Option<T> {
        self.text_of(name).parse::<i64>().ok().and_then(|number| T::try_from(number).ok())
    }

    pub(super) fn bytes(&self, name: &str) -> u64 {
        self.text_of(name).parse().unwrap_or_default()
    }

    pub(super) fn octal(&self, name: &str) -> u32 {
        value::octal(&self.text_of(name)).unwrap_or_default()
    }

    /// Returns the canonical spelling of a choice.
    pub(super) fn choice(&self, name: &str) -> String {
        self.text_of(name)
    }

    pub(super) fn patterns(&self, name: &str) -> Vec<String> {
        value::patterns(&self.text_of(name))
    }

    /// Returns a list with the server's variables expanded in each element.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        value::list(&self.text_of(name)).iter().filter_map(|element| self.constant(name, element)).collect()
    }

    /// Returns a list without expanding variables.
    pub(super) fn plain_list(&self, name: &str) -> Vec<String> {
        value::list(&self.text_of(name))
    }

    /// Returns a list whose elements may contain variables of a session.
    pub(super) fn templates(&self, name: &str) -> Vec<Template> {
        value::list(&self.text_of(name)).iter().map(|element| self.fill(name, element)).collect()
    }

    /// Returns a text with the server's variables expanded; empty, with an error, if it contains a variable of a
    /// session.
    pub(super) fn text(&self, name: &str) -> String {
        self.constant(name, &self.text_of(name)).unwrap_or_default()
    }

    /// Returns a text that is shown to clients, with the server's variables expanded. Variables of a session stay as
    /// they are.
    pub(super) fn shown_text(&self, name: &str) -> String {
        let template = self.template(name);
        template.constant().unwrap_or_else(|| {
            let problem = warning(
                Code::Variable,
                format!("`{name}` is the same for all clients: its session variables are not expanded"),
            );
            self.report(name, problem.remedy("use %h, %L, %D, %S or %$(VARIABLE), or a fixed text"));
            self.text_of(name)
        })
    }

    /// Returns a text that may contain variables of a session.
    pub(super) fn template(&self, name: &str) -> Template {
        self.fill(name, &self.text_of(name))
    }

    fn fill(&self, name: &str, text: &str) -> Template {
        let expanded = self.variables.expand(text);
        for unknown in &expanded.unknown {
            let problem =
                warning(Code::Variable, format!("`{unknown}` is not a variable; `{name}` keeps it literally"));
            self.report(name, problem.remedy("frevo-smb.conf(5) lists the variables; write %% for a percent sign"));
        }
        let plain = || Template::parse(&text.replace('%', "%%"));
        Template::parse(&expanded.text).or_else(|_| plain()).expect("doubled percent signs are not variables")
    }

    fn constant(&self, name: &str, text: &str) -> Option<String> {
        let template = self.fill(name, text);
        let constant = template.constant();
        if constant.is_none() {
            let letters: Vec<_> = template.variables().map(|variable| format!("%{}", variable.0)).collect();
            let message = format!("`{name}` cannot contain {}, which differs between sessions", letters.join(", "));
            self.report(
                name,
                error(Code::Variable, message).remedy("use %h, %L, %D, %S or %$(VARIABLE), or a fixed text"),
            );
        }
        constant
    }
}

//! Typed access to a section for stage two: a share's own value, else that of `[global]`, else the table's default.
//!
//! Values were checked against the table before, so reading one as its kind cannot fail.

use std::cell::RefCell;

use server::policy::Template;

use super::problem::{Code, Place, Problem, Problems, error, warning};
use super::resolve::{Settings, Value};
use super::table::{self, Parameter, Scope};
use super::value;
use super::variables::ServerVariables;

/// One section, and where to complain.
pub(super) struct Reader<'a> {
    pub(super) global: &'a Settings,
    /// `None` for `[global]` itself.
    pub(super) share: Option<&'a Settings>,
    pub(super) variables: &'a ServerVariables<'a>,
    pub(super) problems: &'a RefCell<Problems>,
}

impl<'a> Reader<'a> {
    /// The entry of `name` and the value that counts, if one was set.
    fn find(&self, name: &str) -> (&'static Parameter, Option<&'a Value>) {
        let (parameter, _) = table::find(name).expect("the parameters that are read are all in the table");
        #[cfg(test)]
        super::tests::READ.with_borrow_mut(|read| read.insert(parameter.name));
        let own = self.share.filter(|_| parameter.scope == Scope::Share).and_then(|share| share.0.get(parameter.name));
        (parameter, own.or_else(|| self.global.0.get(parameter.name)))
    }

    /// The value of `name`, in its one spelling.
    fn text_of(&self, name: &str) -> String {
        let (parameter, value) = self.find(name);
        match value {
            Some(value) => value.text.clone(),
            None => value::normalize(parameter.kind, parameter.default).unwrap_or_default(),
        }
    }

    /// Whether the configuration says anything of `name`.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.find(name).1.is_some()
    }

    /// Where `name` was set.
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

    /// Reports `problem`, where there is one, at the line of `name`.
    pub(super) fn report_some(&self, name: &str, problem: Option<Problem>) {
        problem.into_iter().for_each(|problem| self.report(name, problem));
    }

    /// Reports that `what`, a part of the value of `name`, is wrong.
    pub(super) fn bad_value(&self, name: &str, what: &str, remedy: &str) {
        let problem = error(Code::BadValue, format!("`{what}` is no value for `{name}`"));
        self.report(name, problem.remedy(format!("allowed: {remedy}")));
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        self.text_of(name) == "yes"
    }

    /// A number; `T` is at least as wide as the range in the table.
    pub(super) fn number<T: TryFrom<i64>>(&self, name: &str) -> Option<T> {
        self.text_of(name).parse::<i64>().ok().and_then(|number| T::try_from(number).ok())
    }

    pub(super) fn bytes(&self, name: &str) -> u64 {
        self.text_of(name).parse().unwrap_or_default()
    }

    pub(super) fn octal(&self, name: &str) -> u32 {
        value::octal(&self.text_of(name)).unwrap_or_default()
    }

    /// The printed spelling of a choice.
    pub(super) fn choice(&self, name: &str) -> String {
        self.text_of(name)
    }

    pub(super) fn patterns(&self, name: &str) -> Vec<String> {
        value::patterns(&self.text_of(name))
    }

    /// A list, each element with its variables filled.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        value::list(&self.text_of(name)).iter().filter_map(|element| self.constant(name, element)).collect()
    }

    /// A list as it stands.
    pub(super) fn plain_list(&self, name: &str) -> Vec<String> {
        value::list(&self.text_of(name))
    }

    /// A list, each element with variables that a session fills.
    pub(super) fn templates(&self, name: &str) -> Vec<Template> {
        value::list(&self.text_of(name)).iter().map(|element| self.fill(name, element)).collect()
    }

    /// A text with its variables filled; empty where a session would have to fill one.
    pub(super) fn text(&self, name: &str) -> String {
        self.constant(name, &self.text_of(name)).unwrap_or_default()
    }

    /// A text that clients are shown, with its variables filled, save those that a session would have to fill.
    pub(super) fn shown_text(&self, name: &str) -> String {
        let template = self.template(name);
        template.constant().unwrap_or_else(|| {
            let problem = warning(
                Code::Variable,
                format!("`{name}` is the same for all clients: its variables stay as they are"),
            );
            self.report(name, problem.remedy("use %h, %L, %D, %S or %$(VARIABLE), or a fixed text"));
            self.text_of(name)
        })
    }

    /// A text with variables that a session fills.
    pub(super) fn template(&self, name: &str) -> Template {
        self.fill(name, &self.text_of(name))
    }

    fn fill(&self, name: &str, text: &str) -> Template {
        let expanded = self.variables.expand(text);
        for unknown in &expanded.unknown {
            let problem = warning(Code::Variable, format!("`{unknown}` is no variable: it stays in `{name}` as it is"));
            self.report(name, problem.remedy("frevo-smb.conf(5) lists the variables; write %% for a percent sign"));
        }
        let plain = || Template::parse(&text.replace('%', "%%"));
        Template::parse(&expanded.text).or_else(|_| plain()).expect("doubled percent signs are no variables")
    }

    fn constant(&self, name: &str, text: &str) -> Option<String> {
        let template = self.fill(name, text);
        let constant = template.constant();
        if constant.is_none() {
            let letters: Vec<_> = template.variables().map(|variable| format!("%{}", variable.0)).collect();
            let message = format!("`{name}` cannot have {}, which each session has for itself", letters.join(", "));
            self.report(
                name,
                error(Code::Variable, message).remedy("use %h, %L, %D, %S or %$(VARIABLE), or a fixed text"),
            );
        }
        constant
    }
}

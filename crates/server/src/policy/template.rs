//! [`Template`]: a configured text with `%` variables that depend on the session, such as `/srv/home/%U`.
//!
//! Variables with one value for the whole server are expanded before a template is created. The values of the others
//! may be chosen by a client, so a value in a path must be a single plain path component. Templates are never passed to
//! a shell.

use std::path::PathBuf;

/// A text with variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Variable(Variable),
}

/// A variable, identified by Samba's letter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variable(pub char);

impl Variable {
    /// The user name that the client requested.
    pub const SESSION_USER: Variable = Variable('U');
    /// The primary group of [`Self::SESSION_USER`].
    pub const SESSION_GROUP: Variable = Variable('G');
    /// The user that accesses the share (after `force user`).
    pub const USER: Variable = Variable('u');
    /// The primary group of [`Self::USER`].
    pub const GROUP: Variable = Variable('g');
    /// The home directory of [`Self::USER`], an absolute path.
    pub const HOME: Variable = Variable('H');
    /// The client's NetBIOS name; without one, its address.
    pub const CLIENT_NETBIOS_NAME: Variable = Variable('m');
    /// The client's host name. Names are not looked up, so this is its address.
    pub const CLIENT_HOST: Variable = Variable('M');
    /// The client's address.
    pub const CLIENT_ADDRESS: Variable = Variable('I');
    /// The client's address with `_` for every dot and colon.
    pub const CLIENT_ADDRESS_PLAIN: Variable = Variable('J');
    /// The address that the client connected to.
    pub const SERVER_ADDRESS: Variable = Variable('i');
    /// The address that the client connected to, with `_` for every dot and colon.
    pub const SERVER_ADDRESS_PLAIN: Variable = Variable('j');
    /// The dialect, such as `SMB3_11`.
    pub const PROTOCOL: Variable = Variable('R');
    /// The kind of client.
    pub const ARCHITECTURE: Variable = Variable('a');
    /// The share's name.
    pub const SHARE: Variable = Variable('S');
    /// The share's root.
    pub const ROOT: Variable = Variable('P');
    /// The process id.
    pub const PROCESS: Variable = Variable('d');
    /// Date and time.
    pub const TIME: Variable = Variable('T');
    /// Date and time as `YYYYmmdd_HHMMSS`.
    pub const TIME_PLAIN: Variable = Variable('t');

    /// All variables that depend on the session.
    pub const ALL: [Variable; 18] = [
        Self::SESSION_USER,
        Self::SESSION_GROUP,
        Self::USER,
        Self::GROUP,
        Self::HOME,
        Self::CLIENT_NETBIOS_NAME,
        Self::CLIENT_HOST,
        Self::CLIENT_ADDRESS,
        Self::CLIENT_ADDRESS_PLAIN,
        Self::SERVER_ADDRESS,
        Self::SERVER_ADDRESS_PLAIN,
        Self::PROTOCOL,
        Self::ARCHITECTURE,
        Self::SHARE,
        Self::ROOT,
        Self::PROCESS,
        Self::TIME,
        Self::TIME_PLAIN,
    ];
}

/// A variable that is not supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownVariable(
    /// The character after the percent sign; `None` at the end of the text.
    pub Option<char>,
);

impl Template {
    /// Parses `text`; `%%` is a percent sign.
    pub fn parse(text: &str) -> Result<Template, UnknownVariable> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                plain.push(character);
                continue;
            }
            match characters.next() {
                Some('%') => plain.push('%'),
                Some(letter) if Variable::ALL.contains(&Variable(letter)) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Variable(Variable(letter)));
                }
                other => return Err(UnknownVariable(other)),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template(parts))
    }

    /// Returns the text, if it has no variables.
    pub fn constant(&self) -> Option<String> {
        self.expand(|_| None)
    }

    /// Returns the variables in their order.
    pub fn variables(&self) -> impl Iterator<Item = Variable> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Variable(variable) => Some(*variable),
        })
    }

    /// Expands every variable by `value`; `None` if `value` returns `None`.
    pub fn expand(&self, mut value: impl FnMut(Variable) -> Option<String>) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Variable(variable) => text.push_str(&value(*variable)?),
            }
        }
        Some(text)
    }

    /// Expands every variable of a path by `value`. `None` if `value` returns `None`, if a value is not a single plain
    /// path component, or if the result is not absolute. [`Variable::HOME`] may be a whole path, but only at the start.
    pub fn expand_path(&self, mut value: impl FnMut(Variable) -> Option<String>) -> Option<PathBuf> {
        let mut front = true;
        let text = self.expand(|variable| {
            let in_front = std::mem::replace(&mut front, false) && matches!(self.0.first(), Some(Part::Variable(_)));
            let value = value(variable)?;
            let home = in_front && variable == Variable::HOME && is_clean(&value);
            (home || is_component(&value)).then_some(value)
        })?;
        is_clean(&text).then(|| PathBuf::from(text))
    }
}

/// Whether `value` is a valid single component of a path.
fn is_component(value: &str) -> bool {
    !value.is_empty() && value != "." && !value.contains("..") && !value.contains(['/', '\0'])
}

/// Whether `path` is absolute and has no `..`.
fn is_clean(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0') && !path.split('/').any(|component| component == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, value: &str, text: Option<&str>, path: Option<&str>) {
        let template = Template::parse(template).expect("known variables");
        assert_eq!(template.expand(|_| Some(value.to_owned())).as_deref(), text, "{template:?}");
        assert_eq!(
            template.expand_path(|_| Some(value.to_owned())),
            path.map(PathBuf::from),
            "{template:?} of {value}"
        );
    }

    #[test]
    fn all_values_expand_in_texts_and_only_harmless_ones_in_paths() {
        check("/home/%U", "ann", Some("/home/ann"), Some("/home/ann"));
        check("/home/%U/%m-%%", "x", Some("/home/x/x-%"), Some("/home/x/x-%"));
        check("/home/%U", "../etc", Some("/home/../etc"), None);
        check("/home/%U", "a/b", Some("/home/a/b"), None);
        check("/home/%U", "", Some("/home/"), None);
        check("/home/%U", ".", Some("/home/."), None);
        check("/home/a%U", "..", Some("/home/a.."), None);
        check("/home/%U", "a\0b", Some("/home/a\0b"), None);
        check("%H/share", "/home/ann", Some("/home/ann/share"), Some("/home/ann/share"));
        check("/x/%H", "/home/ann", Some("/x//home/ann"), None);
        check("%H%H", "/home", Some("/home/home"), None);
        check("%U/x", "ann", Some("ann/x"), None);
        check("%U/x", "/etc", Some("/etc/x"), None);
    }

    #[test]
    fn constants_and_unknown_variables_are_distinguished() {
        assert_eq!(Template::parse("/srv/100%%").expect("known").constant().as_deref(), Some("/srv/100%"));
        assert_eq!(Template::parse("/srv/%u").expect("known").constant(), None);
        assert_eq!(Template::parse("/srv/%z"), Err(UnknownVariable(Some('z'))));
        assert_eq!(Template::parse("/srv/%"), Err(UnknownVariable(None)));
        let variables: Vec<_> = Template::parse("%S-%u").expect("known").variables().collect();
        assert_eq!(variables, [Variable::SHARE, Variable::USER]);
    }
}

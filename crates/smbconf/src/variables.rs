//! The `%` variables that are the same for the whole server, expanded while the configuration is read.
//!
//! Variables that differ between sessions stay in the text for [`server::policy::Template`].

use server::policy::template::Variable;

use super::Names;

/// The values of the variables.
pub(super) struct ServerVariables<'a> {
    /// `%h` and the environment.
    pub(super) names: &'a dyn Names,
    /// `%L` and `%N`.
    pub(super) netbios_name: String,
    /// `%D`.
    pub(super) workgroup: String,
    /// `%S`, if the text belongs to a share.
    pub(super) share: Option<String>,
}

/// A text with the server's variables expanded.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Expanded {
    /// The text in [`server::policy::Template`]'s form: session variables are kept, any other percent sign is doubled.
    pub(super) text: String,
    /// Unknown variables, which are kept literally, as in Samba.
    pub(super) unknown: Vec<String>,
}

impl ServerVariables<'_> {
    /// Expands the server's variables in `text`.
    pub(super) fn expand(&self, text: &str) -> Expanded {
        let mut expanded = Expanded { text: String::new(), unknown: Vec::new() };
        let mut rest = text;
        while let Some((plain, behind)) = rest.split_once('%') {
            expanded.text.push_str(plain);
            rest = self.one(behind, &mut expanded);
        }
        expanded.text.push_str(rest);
        expanded
    }

    /// Expands the one variable at the start of `behind` and returns the text after it.
    fn one<'t>(&self, behind: &'t str, expanded: &mut Expanded) -> &'t str {
        let mut characters = behind.chars();
        let Some(letter) = characters.next() else {
            expanded.text.push_str("%%");
            return behind;
        };
        let after = characters.as_str();
        if let Some((name, after)) = behind.strip_prefix("$(").and_then(|name| name.split_once(')')) {
            let value = self.names.environment(name).unwrap_or_else(|| {
                expanded.unknown.push(format!("%$({name})"));
                format!("%$({name})")
            });
            expanded.text.push_str(&value.replace('%', "%%"));
            return after;
        }
        let value = match letter {
            'h' => self.names.host(),
            'L' | 'N' => self.netbios_name.clone(),
            'D' => self.workgroup.clone(),
            'v' => env!("CARGO_PKG_VERSION").to_owned(),
            'w' => "\\".to_owned(),
            '%' => "%".to_owned(),
            'S' if self.share.is_some() => self.share.clone().unwrap_or_default(),
            _ if Variable::ALL.contains(&Variable(letter)) => {
                expanded.text.push('%');
                expanded.text.push(letter);
                return after;
            }
            _ => {
                // `%z` is a likely mistake; `100% ours` is not.
                if letter.is_ascii_alphabetic() {
                    expanded.unknown.push(format!("%{letter}"));
                }
                expanded.text.push_str("%%");
                return behind;
            }
        };
        expanded.text.push_str(&value.replace('%', "%%"));
        after
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestNames;
    use super::*;

    #[test]
    fn server_variables_are_expanded() {
        let names = TestNames;
        let variables = ServerVariables {
            names: &names,
            netbios_name: "SRV".into(),
            workgroup: "GROUP".into(),
            share: Some("100%".into()),
        };
        let cases: &[(&str, &str, &[&str])] = &[
            ("", "", &[]),
            ("%L on %h in %D", "SRV on box.example.org in GROUP", &[]),
            ("/home/%U/%m", "/home/%U/%m", &[]),
            ("%S", "100%%", &[]),
            ("100% ours, 50%", "100%% ours, 50%%", &[]),
            ("%%U", "%%U", &[]),
            ("%z%é", "%%z%%é", &["%z"]),
            ("%$(HERE)/x", "/here/x", &[]),
            ("%$(GONE)/x", "%%$(GONE)/x", &["%$(GONE)"]),
            ("%$(open", "%%$(open", &[]),
            ("%", "%%", &[]),
        ];
        for (text, expected, unknown) in cases {
            let expanded = variables.expand(text);
            assert_eq!(expanded.text, *expected, "{text}");
            assert_eq!(expanded.unknown, *unknown, "{text}");
            server::policy::Template::parse(&expanded.text).expect("only session variables are left");
        }
    }
}

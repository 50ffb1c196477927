//! Tests that the table is consistent with itself and with the parameters of Samba 4.17.

use std::collections::HashMap;

use super::*;

/// Every parameter of Samba 4.17.12 with its default, as printed by Samba's testparm.
const SAMBA: &str = include_str!("../../tests/data/samba-4.17-defaults.txt");

#[test]
fn names_are_unique() {
    let mut seen = HashMap::new();
    for parameter in all() {
        for name in std::iter::once(&parameter.name).chain(parameter.synonyms) {
            let folded = fold_name(name.trim_start_matches('!'));
            // `dead time` folds to the same name; it is listed because users look for it in the manual.
            if let Some(other) = seen.insert(folded, parameter.name) {
                assert_eq!(other, parameter.name, "{name}");
            }
        }
    }
}

#[test]
fn every_entry_is_complete() {
    for parameter in all() {
        let Parameter { name, help, default, .. } = parameter;
        let words = help.split_whitespace().count();
        assert!(help.ends_with('.') && words >= 4, "{name}: {help:?} is not a sentence");
        assert!(parameter.status == Status::Served || !parameter.status.reason().is_empty(), "{name}: no reason");
        let value = crate::value::normalize(parameter.kind, default);
        assert!(value.is_ok() || (default.is_empty() && parameter.may_be_empty()), "{name}: default {default:?}");
    }
}

#[test]
fn every_parameter_of_samba_is_known() {
    for line in SAMBA.lines() {
        let name = line.split('=').next().expect("a name").trim();
        assert!(find(name).is_some() || find_prefix(name).is_some(), "{name}");
    }
}

#[test]
fn defaults_equal_sambas_unless_the_help_documents_it() {
    let own = [
        "netbios name",
        "tls cafile",
        "server string",
        "state directory",
        "private dir",
        "pid directory",
        "log file",
        "log level",
        "max open files",
        "mangled names",
        "honor change notify privilege",
        "server services",
        "dcerpc endpoint servers",
        "kerberos encryption types",
        "restrict anonymous",
        "use sendfile",
    ];
    for line in SAMBA.lines() {
        let (name, default) = line.split_once('=').expect("name = value");
        let Some((parameter, false)) = find(name.trim()) else { continue };
        if own.contains(&parameter.name) {
            continue;
        }
        let normalize =
            |text: &str| crate::value::normalize(parameter.kind, text).unwrap_or(text.to_owned()).to_lowercase();
        assert_eq!(normalize(parameter.default), normalize(default.trim()), "{name}");
    }
}

#[test]
fn misspelled_names_get_suggestions() {
    let cases = [
        ("read onyl", Some("read only")),
        ("browsable", Some("browsable")),
        ("vaild users", Some("valid users")),
        ("guestok", Some("guest ok")),
        ("create maks", Some("create mask")),
        ("quantum entanglement", None),
        ("x", None),
    ];
    for (written, expected) in cases {
        assert_eq!(nearest(written), expected, "{written}");
    }
}

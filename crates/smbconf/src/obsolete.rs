//! Values that Samba has removed, or that have no meaning without SMB 1. Old files contain them, so they are warnings
//! that name the replacement.

/// One parameter's obsolete values.
struct Obsolete {
    /// The parameter's name in the table.
    parameter: &'static str,
    /// The values, without white space and in lower case.
    values: &'static [&'static str],
    /// The value that applies instead.
    instead: &'static str,
    /// Why the value is obsolete, as the end of a sentence about it.
    why: &'static str,
    /// The replacement.
    remedy: &'static str,
}

const SMB1: &[&str] = &["nt1", "lanman2", "lanman1", "coreplus", "core+", "core"];

const TABLE: &[Obsolete] = &[
    Obsolete {
        parameter: "security",
        values: &["share"],
        instead: "auto",
        why: "was removed in Samba 4.0",
        remedy: "use `security = user`; for shares without a password also set `map to guest = Bad User`, and \
                 `guest ok = yes` in the share",
    },
    Obsolete {
        parameter: "security",
        values: &["server"],
        instead: "auto",
        why: "was removed in Samba 4.0",
        remedy: "use `security = user` with accounts of this server (`frevo user add`), or `security = ads` as a \
                 member of a domain",
    },
    Obsolete {
        parameter: "encrypt passwords",
        values: &["no", "false", "off", "0"],
        instead: "yes",
        why: "is not possible in SMB 2, which has no plain-text passwords",
        remedy: "remove the line, and set a password for each account (`frevo user passwd`)",
    },
    Obsolete {
        parameter: "server max protocol",
        values: SMB1,
        instead: "default",
        why: "asks for SMB 1, which is not served: clients use SMB 2 or 3",
        remedy: "remove the line",
    },
    Obsolete {
        parameter: "server max protocol",
        values: &["smb2_22"],
        instead: "SMB2_10",
        why: "was removed from Samba",
        remedy: "use SMB2_10, or remove the line",
    },
    Obsolete {
        parameter: "server max protocol",
        values: &["smb2_24"],
        instead: "SMB3_00",
        why: "was removed from Samba",
        remedy: "use SMB3_00, or remove the line",
    },
    Obsolete {
        parameter: "server max protocol",
        values: &["smb3_10"],
        instead: "SMB3_02",
        why: "was removed from Samba",
        remedy: "use SMB3_11, or remove the line",
    },
    Obsolete {
        parameter: "server min protocol",
        values: &["smb2_22", "smb2_24"],
        instead: "SMB3_00",
        why: "was removed from Samba",
        remedy: "use SMB3_00",
    },
    Obsolete {
        parameter: "server min protocol",
        values: &["smb3_10"],
        instead: "SMB3_11",
        why: "was removed from Samba",
        remedy: "use SMB3_11",
    },
    Obsolete {
        parameter: "ldap ssl",
        values: &["only"],
        instead: "start tls",
        why: "was removed from Samba",
        remedy: "use `ldap ssl = start tls`, or a URI that begins with ldaps:// in `passdb backend`",
    },
];

/// Returns the value that replaces the obsolete `value` of `parameter`, why, and the remedy.
pub(super) fn find(parameter: &str, value: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let folded = super::table::fold_name(value);
    let found = TABLE.iter().find(|it| it.parameter == parameter && it.values.contains(&folded.as_str()))?;
    Some((found.instead, found.why, found.remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_valid_values() {
        for entry in TABLE {
            let (parameter, _) = crate::table::find(entry.parameter).expect("a parameter");
            assert_eq!(parameter.name, entry.parameter);
            assert!(crate::value::normalize(parameter.kind, entry.instead).is_ok(), "{}", entry.instead);
        }
        assert!(find("security", "Share").is_some());
        assert!(find("security", "user").is_none());
    }
}

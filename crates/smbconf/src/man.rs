//! Generates the manual page frevo-smb.conf(5) from the table, in the man(7) macros.

use super::table::{self, Kind, MODULES, PREFIXES, Parameter, Status};
use super::value;

/// Returns the page.
pub fn page() -> String {
    let mut page = format!(
        ".TH FREVO-SMB.CONF 5 \"\" \"Frevo {}\" \"Frevo\"\n.SH NAME\nfrevo-smb.conf \\- configuration file of Frevo\n",
        env!("CARGO_PKG_VERSION")
    );
    section(&mut page, "SYNOPSIS", &["/etc/frevo/smb.conf, else /etc/samba/smb.conf; or the file given with -c."]);
    section(&mut page, "DESCRIPTION", DESCRIPTION);
    section(&mut page, "VARIABLES", VARIABLES);
    section(&mut page, "ACCOUNTS", ACCOUNTS);
    let served: Vec<_> = table::all().filter(|entry| entry.status == Status::Served).collect();
    section(
        &mut page,
        "PARAMETERS",
        &["Letters as in Samba's manual: (G) for [global] only, (S) for shares and [global]."],
    );
    for parameter in sorted(served) {
        entry(&mut page, parameter);
    }
    section(&mut page, "ACCEPTED", &["These parameters are accepted and have no effect."]);
    reasons(&mut page, |status| match status {
        Status::Accepted(reason) => Some(reason),
        _ => None,
    });
    let intro =
        "These parameters belong to features that Frevo does not have. Setting one causes a warning. By feature:";
    section(&mut page, "NOT SERVED", &[intro]);
    reasons(&mut page, |status| match status {
        Status::NotServed(feature) => Some(feature),
        _ => None,
    });
    section(&mut page, "SEE ALSO", &["frevo(1), frevo check \\-\\-parameters"]);
    page
}

const DESCRIPTION: &[&str] = &[
    "The format is that of Samba's smb.conf(5): sections in brackets, lines of the form name = value, comments that \
     begin with # or ; at the start of a line, and a backslash at the end of a line that continues on the next. Case \
     and blanks in names are ignored.",
    "Each section except [global] is a share. Parameters that a share does not set are taken from [global], then from \
     the defaults below.",
    "An unknown parameter is a warning. A bad value, a duplicate share, and an include that is missing or includes \
     itself are errors, and the server does not start. frevo check lists all problems with file, line and remedy.",
    "No text of the configuration is ever run as a command.",
];

const ACCOUNTS: &[&str] = &[
    "passdb backend selects where user accounts are stored: tdbsam (or embedded) is the server's own database in the \
     state directory, smbpasswd:FILE a text file that Samba's programs may read and change at the same time. Several \
     back ends are searched in order, and new accounts go to the first; a back end that fails ends the search. A \
     change applies to every logon that begins after it, whichever program made it. frevo user changes accounts in \
     all of them.",
    "An account of an smbpasswd file belongs to the UNIX user of the same name. Its RID is twice that user's uid plus \
     algorithmic rid base. Invalid lines are reported in the log and left unchanged.",
];

const VARIABLES: &[&str] = &[
    "The same for the whole server, allowed in any text: %h the host's name, %L and %N the NetBIOS name, %D the \
     workgroup, %v the version, %w a backslash, %S in a share the share's name, %$(NAME) a variable of the server's \
     environment, %% a percent sign.",
    "Different for each session, allowed in path only: %U and %G the requested user and its primary group, %u and %g \
     the effective user and its primary group, %H the user's home directory (only at the start), %m, %M, %I and %J the \
     client, %i and %j the server's address of the connection, %R the dialect, %a the kind of client, %d the process, \
     %T and %t the time. A value that is not a single plain path component is refused.",
];

fn section(page: &mut String, title: &str, paragraphs: &[&str]) {
    page.push_str(&format!(".SH {title}\n"));
    for paragraph in paragraphs {
        page.push_str(&format!(".PP\n{}\n", escape(paragraph)));
    }
}

fn sorted(mut parameters: Vec<&'static Parameter>) -> Vec<&'static Parameter> {
    parameters.sort_by_key(|parameter| parameter.name.to_lowercase());
    parameters
}

fn entry(page: &mut String, parameter: &Parameter) {
    let Parameter { name, help, default, .. } = parameter;
    page.push_str(&format!(".TP\n.B {} ({})\n{}\n", escape(name), parameter.scope.letter(), escape(help)));
    let allowed = match parameter.kind {
        Kind::Text | Kind::Path | Kind::List => String::new(),
        kind => format!("Allowed: {}. ", value::allowed(kind)),
    };
    let default = if default.is_empty() { "nothing" } else { default };
    page.push_str(&format!(".br\n{}Default: {}.\n", escape(&allowed), escape(default)));
    let (inverted, plain): (Vec<&str>, Vec<&str>) = parameter.synonyms.iter().partition(|name| name.starts_with('!'));
    if !plain.is_empty() {
        page.push_str(&format!(".br\nAlso called {}.\n", escape(&plain.join(", "))));
    }
    if !inverted.is_empty() {
        let names = inverted.join(", ").replace('!', "");
        page.push_str(&format!(".br\nThe opposite of {}.\n", escape(&names)));
    }
}

/// Adds one paragraph for each reason, with all parameters that it applies to.
fn reasons(page: &mut String, of: impl Fn(Status) -> Option<&'static str>) {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    let parameters = table::all().map(|entry| (entry.status, entry.name.to_owned()));
    let prefixes = PREFIXES.iter().map(|prefix| (prefix.status, format!("{}:*", prefix.name)));
    let modules = MODULES.iter().map(|module| (module.status, format!("vfs objects = {}", module.name)));
    for (status, name) in parameters.chain(prefixes).chain(modules) {
        let Some(reason) = of(status) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    groups.sort_by_key(|(reason, _)| reason.to_lowercase());
    for (reason, names) in groups {
        page.push_str(&format!(".TP\n.I {}\n{}\n", escape(reason), escape(&names.join(", "))));
    }
}

/// Escapes characters that are special to troff.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('~', "\\(ti").replace('^', "\\(ha");
    // At the start of a line these two would start a request.
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_on_the_page() {
        let page = page();
        for parameter in table::all() {
            assert!(page.contains(&escape(parameter.name)), "{}", parameter.name);
        }
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(
                [".TH ", ".SH ", ".PP", ".TP", ".B ", ".I ", ".br"].iter().any(|known| line.starts_with(known)),
                "{line}"
            );
        }
    }
}

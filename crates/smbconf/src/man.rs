//! The manual of all parameters, generated from the table: the page frevo-smb.conf(5) in the man(7) macros, and single
//! entries as text for `frevo help`.

use super::table::{self, MODULES, Module, PREFIXES, Parameter, Prefix, Scope, Status};
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
    section(
        &mut page,
        "PARAMETERS",
        &["These parameters are served. Letters as in Samba's manual: (G) for [global] only, (S) for shares and \
             [global]."],
    );
    entries(&mut page, |status| status == Status::Served);
    section(&mut page, "PARAMETERS WITHOUT EFFECT", &["These parameters are accepted and change nothing in Frevo."]);
    entries(&mut page, |status| matches!(status, Status::Accepted(_)));
    let intro = "These parameters belong to features that Frevo does not have. Setting one causes a warning, unless \
                 the value does not need the feature.";
    section(&mut page, "PARAMETERS THAT ARE NOT SERVED", &[intro]);
    entries(&mut page, |status| matches!(status, Status::NotServed(_)));
    section(
        &mut page,
        "MODULES AND FAMILIES",
        &["These modules of vfs objects, and families of parameters with a colon in their names, are known. frevo \
         help NAME says how each is treated."],
    );
    families(&mut page);
    section(&mut page, "SEE ALSO", &["frevo(1), frevo-check(1), frevo-help(1)"]);
    page
}

/// Returns the entry of a parameter, a family of parameters (`fruit:model`) or a module, as text; `None` if the name is
/// unknown.
pub fn text(name: &str) -> Option<String> {
    if let Some((parameter, inverted)) = table::find(name) {
        return Some(parameter_text(parameter, inverted.then_some(name)));
    }
    let (title, status, vital) = match table::find_prefix(name).filter(|_| name.contains(':')) {
        Some(Prefix { name, status }) => (format!("{name}:*"), status, None),
        None => {
            let folded = table::fold_name(name);
            let Module { name, status, vital } = MODULES.iter().find(|module| module.name == folded)?;
            (format!("vfs objects = {name}"), status, *vital)
        }
    };
    let refused = vital.map(|why| format!("; a share that names it is not served, because the module {why}"));
    Some(format!("{title}\n\n    Status:   {}{}\n", treatment(*status), refused.unwrap_or_default()))
}

fn parameter_text(parameter: &Parameter, inverted: Option<&str>) -> String {
    let mut text = format!("{}\n\n    {}\n\n", parameter.name, parameter.help);
    if let Some(name) = inverted {
        text += &format!("    `{name}` is the opposite of `{}`.\n\n", parameter.name);
    }
    for (title, value) in facts(parameter) {
        text += &format!("    {:<10}{value}\n", format!("{title}:"));
    }
    text
}

/// Returns everything about a parameter except its name and help, as titles and values.
fn facts(parameter: &Parameter) -> Vec<(&'static str, String)> {
    let (inverted, plain): (Vec<&str>, Vec<&str>) = parameter.synonyms.iter().partition(|name| name.starts_with('!'));
    let section = match parameter.scope {
        Scope::Global => "[global]",
        Scope::Share => "a share; in [global] it is the default of all shares",
    };
    let default = if parameter.default.is_empty() { "nothing" } else { parameter.default };
    let mut facts = vec![
        ("Section", section.to_owned()),
        ("Value", value::allowed(parameter.kind)),
        ("Default", default.to_owned()),
    ];
    if !plain.is_empty() {
        facts.push(("Synonyms", plain.join(", ")));
    }
    if !inverted.is_empty() {
        facts.push(("Opposite", inverted.join(", ").replace('!', "")));
    }
    facts.push(("Status", treatment(parameter.status)));
    facts
}

/// Describes how Frevo treats a parameter, a family or a module.
fn treatment(status: Status) -> String {
    match status {
        Status::Served => "served".to_owned(),
        Status::Accepted(reason) => format!("no effect in Frevo: {reason}"),
        Status::NotServed(feature) => format!("not supported: {feature}"),
    }
}

const DESCRIPTION: &[&str] = &[
    "The format is that of Samba's smb.conf(5): sections in brackets, lines of the form name = value, comments that \
     begin with # or ; at the start of a line, and a backslash at the end of a line that continues on the next. Case \
     and blanks in names are ignored.",
    "Each section except [global] is a share. Parameters that a share does not set are taken from [global], then from \
     the defaults below.",
    "An unknown parameter is a warning. frevo check lists all problems with file, line and remedy, and says whether \
     the server starts.",
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

/// Adds an entry for each parameter with a status that `belongs`, in alphabetical order.
fn entries(page: &mut String, belongs: impl Fn(Status) -> bool) {
    let mut parameters: Vec<_> = table::all().filter(|parameter| belongs(parameter.status)).collect();
    parameters.sort_by_key(|parameter| parameter.name.to_lowercase());
    parameters.into_iter().for_each(|parameter| entry(page, parameter));
}

fn entry(page: &mut String, parameter: &Parameter) {
    let Parameter { name, help, .. } = parameter;
    page.push_str(&format!(".TP\n.B {} ({})\n{}\n", escape(name), parameter.scope.letter(), escape(help)));
    let told = |title: &str| title != "Section" && (title != "Status" || parameter.status != Status::Served);
    for (title, value) in facts(parameter).into_iter().filter(|(title, _)| told(title)) {
        page.push_str(&format!(".br\n{title}: {}.\n", escape(&value)));
    }
}

/// Adds one paragraph for each reason, with all modules and families that it applies to.
fn families(page: &mut String) {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let prefixes = PREFIXES.iter().map(|prefix| (prefix.status, format!("{}:*", prefix.name)));
    let modules = MODULES.iter().map(|module| (module.status, format!("vfs objects = {}", module.name)));
    for (status, name) in prefixes.chain(modules) {
        let treatment = treatment(status);
        match groups.iter_mut().find(|(known, _)| *known == treatment) {
            Some((_, names)) => names.push(name),
            None => groups.push((treatment, vec![name])),
        }
    }
    groups.sort();
    for (treatment, names) in groups {
        page.push_str(&format!(".TP\n.I {}\n{}\n", escape(&treatment), escape(&names.join(", "))));
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
    fn every_parameter_has_an_entry() {
        let page = page();
        for parameter in table::all() {
            let head = format!(".TP\n.B {} ({})\n", escape(parameter.name), parameter.scope.letter());
            assert_eq!(page.matches(&head).count(), 1, "{}", parameter.name);
            let text = text(parameter.name).expect("an entry");
            assert!(text.contains(parameter.help) && text.contains("Default:"), "{text}");
        }
        for name in MODULES.iter().map(|module| module.name).chain(PREFIXES.iter().map(|prefix| prefix.name)) {
            assert!(page.contains(&escape(name)), "{name}");
        }
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(
                [".TH ", ".SH ", ".PP", ".TP", ".B ", ".I ", ".br"].iter().any(|known| line.starts_with(known)),
                "{line}"
            );
        }
    }

    #[test]
    fn an_entry_names_synonyms_and_status() {
        let entry = |name: &str| text(name).unwrap_or_else(|| panic!("{name} is unknown"));
        assert_eq!(
            entry("Create Mode"),
            "create mask\n\n    Permission bits that are allowed in a new file.\n\n    \
             Section:  a share; in [global] it is the default of all shares\n    \
             Value:    permission bits in octal, 0000 to 7777\n    Default:  0744\n    Synonyms: create mode\n    \
             Status:   served\n"
        );
        assert!(entry("writable").contains("`writable` is the opposite of `read only`."), "{}", entry("writable"));
        assert!(entry("wins support").contains("no effect in Frevo: nmbd reads it"), "{}", entry("wins support"));
        assert!(entry("magic script").contains("not supported: running commands"), "{}", entry("magic script"));
        assert!(entry("gpfs:acl").starts_with("gpfs:*\n"), "{}", entry("gpfs:acl"));
        assert!(entry("worm").contains("is not served, because the module forbids operations"), "{}", entry("worm"));
        for unknown in ["raed only", "x:y", "no module", ""] {
            assert_eq!(text(unknown), None, "{unknown}");
        }
    }
}

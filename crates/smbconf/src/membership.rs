//! Domain membership (`server role`, `security`, `realm`), and how the user lists of a share name the domain's users
//! and groups (`winbind separator`, `winbind use default domain`).

use server::domain::Membership;
use server::policy::{Template, UserPattern};

use super::problem::{Code, error};
use super::reader::{Reader, ValueReader};
use super::table::access::{SECURITY, SERVER_ROLE};
use super::table::domain::{DEFAULT_DOMAIN, REALM, SEPARATOR};

/// Returns the domain that the server is a member of; `None` for a standalone server.
pub(super) fn build(global: &Reader<'_>) -> Option<Membership> {
    let (role, security) = (global.value(&SERVER_ROLE).choice(), global.value(&SECURITY).choice());
    let realm = global.value(&REALM).text().to_uppercase();
    let member = match (role.as_str(), security.as_str()) {
        ("auto", "auto" | "user") | ("standalone server", "auto" | "user") => false,
        ("auto", "ads" | "domain") | ("member server", "auto" | "ads" | "domain") => true,
        ("standalone server" | "member server", security) => {
            let message = format!("`server role` = {role} and `security` = {security} contradict each other");
            let remedy = "for a domain member set `server role = member server` and `security = ads`; for a standalone \
                          server remove both";
            global.value(&SECURITY).report(error(Code::Contradiction, message).remedy(remedy));
            false
        }
        (other, _) => {
            let allowed = "auto, standalone server or member server; Frevo cannot be a domain controller";
            global.value(&SERVER_ROLE).bad_value(other, allowed);
            false
        }
    };
    if member && security == "ads" && realm.is_empty() {
        let problem = error(Code::BadValue, "`security` = ads needs a realm");
        global.value(&SECURITY).report(problem.remedy("add the DNS name of the domain, such as `realm = EXAMPLE.COM`"));
    }
    let workgroup = global.variables.workgroup.clone();
    member.then_some(Membership { workgroup, realm })
}

/// Returns the users and groups of a list.
pub(super) fn users(value: ValueReader<'_>) -> Vec<UserPattern> {
    let naming = Naming::of(&value.section);
    let named = |template: Template| match template.constant() {
        Some(element) => naming.patterns(&element),
        None => vec![UserPattern::Variable(template)],
    };
    value.templates().into_iter().flat_map(named).collect()
}

/// How elements of user lists name users and groups.
struct Naming {
    /// Domain names that mean the server itself.
    own: Vec<String>,
    /// The separator between domain and name, besides the backslash.
    separator: Option<char>,
    /// The domain that an element without a domain refers to.
    default_domain: Option<String>,
}

impl Naming {
    /// For the user lists of a share.
    fn of(reader: &Reader<'_>) -> Naming {
        let member = build(reader).is_some();
        let (netbios_name, workgroup) = (&reader.variables.netbios_name, &reader.variables.workgroup);
        let separator = reader.value(&SEPARATOR).text().chars().next();
        let default = reader.value(&DEFAULT_DOMAIN).boolean() && member;
        let own = match member {
            true => vec![netbios_name.clone()],
            false => vec![netbios_name.clone(), workgroup.clone()],
        };
        Naming {
            own,
            separator: separator.filter(|separator| member && *separator != '\\'),
            default_domain: default.then(|| workgroup.clone()),
        }
    }

    /// Returns the users or groups that `element` refers to: one pattern, or one for the server and one for the domain.
    fn patterns(&self, element: &str) -> Vec<UserPattern> {
        let own: Vec<&str> = self.own.iter().map(String::as_str).collect();
        let front = element.len() - element.trim_start_matches(['@', '+', '&']).len();
        let (marks, name) = element.split_at(front);
        let name = match self.separator.filter(|_| !name.contains('\\')) {
            Some(separator) => name.replacen(separator, r"\", 1),
            None => name.to_owned(),
        };
        let pattern = UserPattern::parse(&format!("{marks}{name}"), &own);
        let of_domain =
            self.default_domain.as_ref().filter(|_| !name.contains('\\')).and_then(|domain| match &pattern {
                UserPattern::User(name) => Some(UserPattern::User(format!(r"{domain}\{name}"))),
                UserPattern::Group(name) | UserPattern::NetgroupOrGroup(name) => {
                    Some(UserPattern::Group(format!(r"{domain}\{name}")))
                }
                UserPattern::Netgroup(_) | UserPattern::Sid(_) | UserPattern::Variable(_) => None,
            });
        std::iter::once(pattern).chain(of_domain).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use UserPattern::{Group, NetgroupOrGroup, User};

    #[test]
    fn domain_users_are_named_with_the_domain() {
        let check = |separator: Option<char>, default: bool, element: &str, expected: &[UserPattern]| {
            let default_domain = default.then(|| "DOM".to_owned());
            let naming = Naming { own: vec!["SRV".into()], separator, default_domain };
            assert_eq!(naming.patterns(element), expected, "{element}");
        };
        let (user, group) = (|name: &str| User(name.into()), |name: &str| Group(name.into()));
        check(None, false, "ann", &[user("ann")]);
        check(None, false, r"SRV\ann", &[user("ann")]);
        check(None, false, r"DOM\ann", &[user(r"DOM\ann")]);
        check(None, false, r"+DOM\domain users", &[group(r"DOM\domain users")]);
        check(None, false, r"@DOM\domain users", &[NetgroupOrGroup(r"DOM\domain users".into())]);
        check(Some('+'), false, "DOM+ann", &[user(r"DOM\ann")]);
        check(Some('+'), false, "@DOM+a+b", &[NetgroupOrGroup(r"DOM\a+b".into())]);
        check(Some('+'), false, r"DOM\a+b", &[user(r"DOM\a+b")]);
        check(None, true, "ann", &[user("ann"), user(r"DOM\ann")]);
        check(None, true, "+staff", &[group("staff"), group(r"DOM\staff")]);
        check(None, true, "@staff", &[NetgroupOrGroup("staff".into()), group(r"DOM\staff")]);
        check(None, true, "&staff", &[UserPattern::Netgroup("staff".into())]);
        check(None, true, r"OTHER\ann", &[user(r"OTHER\ann")]);
        check(None, true, r"SRV\ann", &[user("ann")]);
    }
}

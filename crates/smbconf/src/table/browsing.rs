//! NetBIOS browsing and WINS, which are the business of nmbd, and service discovery.

use super::{BOOL, BOOL_OR_AUTO, Kind, LIST, NMBD, NUMBER, Parameter, TEXT, global};
use crate::problem::{Code, warning};
use crate::reader::ValueReader;

const MDNS_NAMES: Kind = Kind::Choice(&[&["netbios"], &["mdns"]]);

const NETBIOS_NAME_SERVICE: Parameter = global(
    "frevo:netbios name service",
    BOOL,
    "no",
    "Answer for the server's names by the NetBIOS name service, instead of nmbd. Not in Samba.",
)
.reads(|value, global| {
    global.daemon.netbios_name_service = value.boolean() && !value.of(&DISABLE_NETBIOS).boolean();
});

const DISABLE_NETBIOS: Parameter =
    global("disable netbios", BOOL, "no", "Switch the NetBIOS name service off, also if it is configured.")
        .reads(|value, _| report_contradiction(value));

const LLMNR: Parameter = global("frevo:llmnr", BOOL, "no", "Answer for the server's names by LLMNR. Not in Samba.")
    .reads(|value, global| global.daemon.llmnr = value.boolean());

pub(super) static TABLE: &[Parameter] = &[
    global("browse list", BOOL, "yes", "Provide the list of servers.").accepted("the list of servers needs SMB 1"),
    global("domain master", BOOL_OR_AUTO, "auto", "Maintain the server list of a whole domain.").accepted(NMBD),
    global("local master", BOOL, "yes", "Maintain the server list of a subnet.").accepted(NMBD),
    global("preferred master", BOOL_OR_AUTO, "auto", "Force an election for the local master browser.")
        .also(&["prefered master"])
        .accepted(NMBD),
    global("os level", NUMBER, "20", "The weight in browser elections.").accepted(NMBD),
    global("enhanced browsing", BOOL, "yes", "Synchronize server lists across subnets.").accepted(NMBD),
    global("lm announce", BOOL_OR_AUTO, "auto", "Announce the server to OS/2.").accepted(NMBD),
    global("lm interval", NUMBER, "60", "Seconds between two announcements to OS/2.").accepted(NMBD),
    global("remote announce", TEXT, "", "Other networks to which the server is announced.").accepted(NMBD),
    global("remote browse sync", TEXT, "", "Other networks with which server lists are synchronized.").accepted(NMBD),
    global("nmbd bind explicit broadcast", BOOL, "yes", "Listen on broadcast addresses.").accepted(NMBD),
    global("dns proxy", BOOL, "yes", "Look up NetBIOS names in DNS.").accepted(NMBD),
    global("wins support", BOOL, "no", "Make nmbd a WINS server.").accepted(NMBD),
    global("wins server", TEXT, "", "The WINS servers to register with.").accepted(NMBD),
    global("wins proxy", BOOL, "no", "Answer broadcast queries with names from WINS.").accepted(NMBD),
    global("wins hook", TEXT, "", "A command to run at changes of the WINS database.").accepted(NMBD),
    global("max wins ttl", NUMBER, "518400", "The longest lifetime of a name.").accepted(NMBD),
    global("min wins ttl", NUMBER, "21600", "The shortest lifetime of a name.").accepted(NMBD),
    global("multicast dns register", BOOL, "yes", "Announce the server to macOS and Linux by multicast DNS.")
        .reads(|value, global| global.daemon.multicast_dns_register = value.boolean()),
    global(
        "mdns name",
        MDNS_NAMES,
        "netbios",
        "The name that multicast DNS announces: netbios name, or the host's name.",
    )
    .reads(|value, global| global.daemon.mdns_host_name = value.choice() == "mdns"),
    global("frevo:ws discovery", BOOL, "yes", "Announce the server to Windows by WS-Discovery. Not in Samba.")
        .reads(|value, global| global.daemon.ws_discovery = value.boolean()),
    NETBIOS_NAME_SERVICE,
    DISABLE_NETBIOS,
    LLMNR,
    global("netbios aliases", LIST, "", "Other names of the server, for its NetBIOS name service and LLMNR.")
        .reads(|value, global| global.daemon.netbios_aliases = aliases(value)),
    global("netbios scope", TEXT, "", "The scope of NetBIOS names.")
        .reads(|value, global| global.daemon.netbios_scope = value.text()),
];

fn report_contradiction(value: ValueReader<'_>) {
    let service = value.of(&NETBIOS_NAME_SERVICE);
    if value.boolean() && service.boolean() {
        let message = "`disable netbios` switches off `frevo:netbios name service`";
        service.report(warning(Code::Contradiction, message).remedy("remove one of the two"));
    }
}

/// Reads the other names, which clients find only by these services. Connections by any name have the same shares.
fn aliases(value: ValueReader<'_>) -> Vec<String> {
    let aliases: Vec<String> = value.list().iter().map(|alias| alias.to_uppercase()).collect();
    let is_announced = value.of(&NETBIOS_NAME_SERVICE).boolean() && !value.of(&DISABLE_NETBIOS).boolean();
    if !aliases.is_empty() && !is_announced && !value.of(&LLMNR).boolean() {
        let message = "`netbios aliases` is not announced: there is no NetBIOS name service and no LLMNR";
        let remedy = "set `frevo:netbios name service = yes` or `frevo:llmnr = yes`, or leave it to nmbd or DNS";
        value.report(warning(Code::NotServed, message).remedy(remedy).loses("other names of the server", None));
    }
    aliases
}

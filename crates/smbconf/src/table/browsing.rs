//! NetBIOS browsing, WINS, and service announcements.

use super::{BOOL, BOOL_OR_AUTO, COMMANDS, NUMBER, Parameter, TEXT, global};

const BROWSING: &str = "NetBIOS browsing, which needs SMB 1";
const WINS: &str = "WINS";

pub(super) static TABLE: &[Parameter] = &[
    global("browse list", BOOL, "yes", "Provide the list of servers.").unserved(BROWSING),
    global("domain master", BOOL_OR_AUTO, "auto", "Maintain the server list of a whole domain.").unserved(BROWSING),
    global("local master", BOOL, "yes", "Maintain the server list of a subnet.").unserved(BROWSING),
    global("preferred master", BOOL_OR_AUTO, "auto", "Force an election for the local master browser.")
        .also(&["prefered master"])
        .unserved(BROWSING),
    global("os level", NUMBER, "20", "The weight in browser elections.").unserved(BROWSING),
    global("enhanced browsing", BOOL, "yes", "Synchronize server lists across subnets.").unserved(BROWSING),
    global("lm announce", BOOL_OR_AUTO, "auto", "Announce the server to OS/2.").unserved(BROWSING),
    global("lm interval", NUMBER, "60", "Seconds between announcements.").unserved(BROWSING),
    global("remote announce", TEXT, "", "Other networks to which the server is announced.").unserved(BROWSING),
    global("remote browse sync", TEXT, "", "Other networks with which server lists are synchronized.")
        .unserved(BROWSING),
    global("nmbd bind explicit broadcast", BOOL, "yes", "Listen on broadcast addresses.").unserved(BROWSING),
    global("dns proxy", BOOL, "yes", "Look up NetBIOS names in DNS.").unserved(WINS),
    global("wins support", BOOL, "no", "Be a WINS server.").unserved(WINS),
    global("wins server", TEXT, "", "The WINS servers to register with.").unserved(WINS),
    global("wins proxy", BOOL, "no", "Answer broadcast queries with names from WINS.").unserved(WINS),
    global("wins hook", TEXT, "", "A command to run at changes of the WINS database.").unserved(COMMANDS),
    global("max wins ttl", NUMBER, "518400", "The longest lifetime of a name.").unserved(WINS),
    global("min wins ttl", NUMBER, "21600", "The shortest lifetime of a name.").unserved(WINS),
    global("multicast dns register", BOOL, "yes", "Announce the server by mDNS.").unserved("mDNS announcements"),
    global("mdns name", TEXT, "netbios", "The name to announce.").unserved("mDNS announcements"),
];

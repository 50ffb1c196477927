//! NetBIOS browsing, WINS, and how the server makes itself known.

use super::{BOOL, BOOL_OR_AUTO, COMMANDS, NUMBER, Parameter, TEXT, global};

const BROWSING: &str = "NetBIOS browsing, which died with SMB 1";
const WINS: &str = "WINS";

pub(super) static TABLE: &[Parameter] = &[
    global("browse list", BOOL, "yes", "Give out the list of servers.").unserved(BROWSING),
    global("domain master", BOOL_OR_AUTO, "auto", "Collect the list of a whole domain.").unserved(BROWSING),
    global("local master", BOOL, "yes", "Collect the list of a subnet.").unserved(BROWSING),
    global("preferred master", BOOL_OR_AUTO, "auto", "Ask for the election of the collector.")
        .also(&["prefered master"])
        .unserved(BROWSING),
    global("os level", NUMBER, "20", "The weight in that election.").unserved(BROWSING),
    global("enhanced browsing", BOOL, "yes", "Collect lists across subnets.").unserved(BROWSING),
    global("lm announce", BOOL_OR_AUTO, "auto", "Announce the server to OS/2.").unserved(BROWSING),
    global("lm interval", NUMBER, "60", "Seconds between announcements.").unserved(BROWSING),
    global("remote announce", TEXT, "", "Other networks that are told of the server.").unserved(BROWSING),
    global("remote browse sync", TEXT, "", "Other networks whose lists are joined.").unserved(BROWSING),
    global("nmbd bind explicit broadcast", BOOL, "yes", "Listen on broadcast addresses.").unserved(BROWSING),
    global("dns proxy", BOOL, "yes", "Ask DNS for NetBIOS names.").unserved(WINS),
    global("wins support", BOOL, "no", "Be a WINS server.").unserved(WINS),
    global("wins server", TEXT, "", "The WINS servers to register with.").unserved(WINS),
    global("wins proxy", BOOL, "no", "Answer for names of WINS.").unserved(WINS),
    global("wins hook", TEXT, "", "A command at changes of the WINS database.").unserved(COMMANDS),
    global("max wins ttl", NUMBER, "518400", "The longest life of a name.").unserved(WINS),
    global("min wins ttl", NUMBER, "21600", "The shortest life of a name.").unserved(WINS),
    global("multicast dns register", BOOL, "yes", "Announce the server by mDNS.").unserved("mDNS announcements"),
    global("mdns name", TEXT, "netbios", "The name to announce.").unserved("mDNS announcements"),
];

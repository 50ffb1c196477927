//! The parameters to tune, each with its values, the work that it affects, and what *Using Samba* says about it.

use super::conf::Scope;
use super::work::Work;

/// A parameter.
pub(super) struct Parameter {
    /// Its name in smb.conf.
    pub(super) name: &'static str,
    /// Its section.
    pub(super) scope: Scope,
    /// The values to compare with that of the configuration.
    pub(super) values: &'static [&'static str],
    /// The values of a quick run.
    pub(super) quick: &'static [&'static str],
    /// The works that show its effect. A quick run uses only the first.
    pub(super) works: &'static [Work],
    /// The result or the statement of the study.
    pub(super) then: &'static str,
}

const FEW: &str = "/*.tmp/~$*/Thumbs.db/desktop.ini/";
const MANY: &str = "/*.tmp/~$*/Thumbs.db/desktop.ini/*.bak/*.swp/*.o/core/*.core/.git/.svn/lost+found/*.part/\
                    *.crdownload/*~/.#*/";

macro_rules! parameter {
    ($scope:ident, $name:literal, $values:expr, quick $quick:expr, $works:expr, $then:literal) => {
        Parameter { name: $name, scope: Scope::$scope, values: &$values, quick: &$quick, works: &$works, then: $then }
    };
}

/// All parameters, in the order of the table.
pub(super) const PARAMETERS: &[Parameter] = &[
    parameter!(Global, "log level", ["0", "1", "3", "5", "10"], quick ["3", "10"], [Work::Small, Work::Read],
        "0 to 3: 645.3 to 622.2 KB/s"),
    parameter!(Global, "socket options",
        ["", "TCP_NODELAY", "TCP_NODELAY=0", "TCP_NODELAY IPTOS_LOWDELAY", "TCP_NODELAY SO_KEEPALIVE",
         "TCP_NODELAY SO_SNDBUF=8192 SO_RCVBUF=8192", "TCP_NODELAY SO_SNDBUF=65536 SO_RCVBUF=65536",
         "TCP_NODELAY SO_SNDBUF=1048576 SO_RCVBUF=1048576", "TCP_NODELAY SO_SNDLOWAT=2048"],
        quick ["TCP_NODELAY=0", "TCP_NODELAY SO_SNDBUF=65536 SO_RCVBUF=65536"], [Work::Read, Work::Write, Work::Small],
        "TCP_NODELAY: 30 to 50 % gain"),
    parameter!(
        Global,
        "smb2 max read",
        ["65536", "1048576", "8388608"],
        quick["65536"],
        [Work::LargestRead],
        "read raw, 64 KB in one request: a gain"
    ),
    parameter!(Global, "smb2 max write", ["65536", "1048576", "8388608"], quick [], [Work::LargestWrite],
        "write raw, 64 KB in one request: a gain"),
    parameter!(Global, "smb2 max trans", ["65536", "1048576", "8388608"], quick [], [Work::Listing],
        "max xmit: at least 2048, best the largest"),
    parameter!(Share, "oplocks", ["yes", "no"], quick["no"], [Work::Batch], "about 30 % gain"),
    parameter!(Share, "level2 oplocks", ["yes", "no"], quick [], [Work::LevelTwo], ""),
    parameter!(Share, "fake oplocks", ["yes"], quick [], [Work::Batch], "for read-only shares: a gain"),
    parameter!(Share, "veto oplock files", ["/*.dat/"], quick [], [Work::Batch], ""),
    parameter!(Share, "hide files", [FEW, MANY], quick[MANY], [Work::Listing], "a comparison for each entry: slower"),
    parameter!(Share, "veto files", [FEW, MANY], quick [], [Work::Listing, Work::Files], ""),
    parameter!(Share, "strict locking", ["no", "auto", "yes"], quick [], [Work::Small], "yes: slower"),
    parameter!(Share, "strict sync", ["no", "yes"], quick["no"], [Work::Durable], "yes: much slower"),
    parameter!(Share, "sync always", ["no", "yes"], quick [], [Work::Write], "yes: much slower"),
    parameter!(Share, "wide links", ["no", "yes"], quick["yes"], [Work::Files], "no: slower"),
    parameter!(Share, "follow symlinks", ["no", "yes"], quick [], [Work::Files], "no: slower"),
    parameter!(Global, "getwd cache", ["no", "yes"], quick [], [Work::Files], "yes: faster where wide links = no"),
    parameter!(Share, "case sensitive", ["no", "auto", "yes"], quick [], [Work::Files], ""),
    parameter!(Share, "store dos attributes", ["no", "yes"], quick [], [Work::Files], ""),
    parameter!(Share, "map archive", ["no", "yes"], quick [], [Work::Files], ""),
    parameter!(Global, "dead time", ["0", "15"], quick [], [Work::Small], "closes idle connections: saves memory"),
    parameter!(Global, "keepalive", ["0", "30"], quick [], [Work::Small], "finds dead clients: negligible cost"),
    parameter!(Global, "server signing", ["mandatory"], quick["mandatory"], [Work::Read, Work::Write, Work::Small], ""),
    parameter!(Share, "smb encrypt", ["required"], quick["required"], [Work::Read, Work::Write, Work::Small], ""),
];

/// Parameters of the study that no longer have an effect, with their replacements.
pub(super) const OBSOLETE: &[(&str, &str, &str)] = &[
    ("read raw", "yes", "READ of many credits, `smb2 max read`"),
    ("write raw", "yes", "WRITE of many credits, `smb2 max write`"),
    ("max xmit", "65535", "`smb2 max trans`, `smb2 max read` and `smb2 max write`"),
    ("read size", "16384", "concurrent reads"),
    ("read prediction", "yes", "the kernel's read-ahead"),
    ("lpq cache time", "10", "none, because it concerns only printers"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_values_are_among_all_values() {
        for parameter in PARAMETERS {
            assert!(parameter.quick.iter().all(|value| parameter.values.contains(value)), "{}", parameter.name);
            assert!(!parameter.values.is_empty() && !parameter.works.is_empty(), "{}", parameter.name);
        }
        let quick: usize = PARAMETERS.iter().map(|parameter| parameter.quick.len()).sum();
        assert!((8..=12).contains(&quick), "{quick}");
    }
}

//! The keys of the registry and their values, which describe the server. The registry stores nothing.

use proto::rpc::srvsvc::server::VERSION;
use proto::rpc::winreg::ValueType;

use crate::policy::{Encryption, Signing};
use crate::state::Server;

/// The predefined keys that clients can open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Root {
    /// HKEY_LOCAL_MACHINE.
    LocalMachine,
    /// HKEY_CLASSES_ROOT and HKEY_USERS, which are empty.
    Empty,
}

/// A value of a key.
pub(super) struct KeyValue {
    pub(super) name: &'static str,
    pub(super) kind: ValueType,
    pub(super) data: Vec<u8>,
}

/// A key below HKEY_LOCAL_MACHINE. The keys on its path exist too.
struct Row {
    path: &'static str,
    values: fn(&Server) -> Vec<KeyValue>,
}

fn none(_: &Server) -> Vec<KeyValue> {
    Vec::new()
}

/// The keys that programs for the administration of servers open, as in Samba.
const KEYS: &[Row] = &[
    Row { path: r"SOFTWARE\Microsoft\Windows NT\CurrentVersion", values: version },
    Row { path: r"SYSTEM\CurrentControlSet\Control\ComputerName\ActiveComputerName", values: computer_name },
    Row { path: r"SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName", values: computer_name },
    Row { path: r"SYSTEM\CurrentControlSet\Control\Print", values: none },
    Row { path: r"SYSTEM\CurrentControlSet\Control\ProductOptions", values: product },
    Row { path: r"SYSTEM\CurrentControlSet\Services\Eventlog", values: none },
    Row { path: r"SYSTEM\CurrentControlSet\Services\LanmanServer\Parameters", values: server_parameters },
    Row { path: r"SYSTEM\CurrentControlSet\Services\Netlogon\Parameters", values: logon_parameters },
    Row { path: r"SYSTEM\CurrentControlSet\Services\Tcpip\Parameters", values: network_parameters },
];

fn version(_: &Server) -> Vec<KeyValue> {
    let (major, minor) = VERSION;
    vec![
        text("CurrentVersion", &format!("{major}.{minor}")),
        // Programs put it before paths. No share has this directory.
        text("SystemRoot", r"c:\Windows"),
    ]
}

fn computer_name(server: &Server) -> Vec<KeyValue> {
    vec![text("ComputerName", &server.policy().netbios_name)]
}

/// The server is never a domain controller.
fn product(_: &Server) -> Vec<KeyValue> {
    vec![text("ProductType", "ServerNT")]
}

fn server_parameters(server: &Server) -> Vec<KeyValue> {
    let policy = server.policy();
    let encrypts = policy.server_smb_encrypt == Encryption::Required;
    vec![
        number("EnableSecuritySignature", 1),
        number("EncryptData", encrypts.into()),
        number("RequireSecuritySignature", (policy.server_signing == Signing::Required).into()),
        number("SMB1", 0),
        number("SMB2", 1),
        text("srvcomment", &policy.server_string),
    ]
}

/// The passwords of computers are not changed through this server.
fn logon_parameters(_: &Server) -> Vec<KeyValue> {
    vec![number("RefusePasswordChange", 0)]
}

fn network_parameters(server: &Server) -> Vec<KeyValue> {
    let policy = server.policy();
    let domain = policy.membership.as_ref().filter(|it| !it.realm.is_empty()).map(|it| it.dns_domain());
    vec![text("Domain", &domain.unwrap_or_default()), text("Hostname", &policy.netbios_name.to_lowercase())]
}

fn text(name: &'static str, text: &str) -> KeyValue {
    let data = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    KeyValue { name, kind: ValueType::SZ, data }
}

fn number(name: &'static str, number: u32) -> KeyValue {
    KeyValue { name, kind: ValueType::DWORD, data: number.to_le_bytes().to_vec() }
}

/// A key: its predefined key, and its path below that as the table spells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    root: Root,
    path: &'static str,
}

impl Key {
    /// Returns a predefined key.
    pub(super) fn root(root: Root) -> Key {
        Key { root, path: "" }
    }

    /// Returns the key at `path` below this one.
    pub(super) fn find(self, path: &str) -> Option<Key> {
        path.split('\\').filter(|name| !name.is_empty()).try_fold(self, Key::child)
    }

    fn child(self, name: &str) -> Option<Key> {
        let (path, _) = self.children().find(|(_, child)| child.eq_ignore_ascii_case(name))?;
        Some(Key { path, ..self })
    }

    /// Returns the names of the subkeys.
    pub(super) fn subkeys(self) -> Vec<&'static str> {
        self.children().map(|(_, name)| name).collect()
    }

    /// Returns the values.
    pub(super) fn values(self, server: &Server) -> Vec<KeyValue> {
        let row = self.rows().iter().find(|row| row.path == self.path);
        row.map_or_else(Vec::new, |row| (row.values)(server))
    }

    fn rows(self) -> &'static [Row] {
        if self.root == Root::LocalMachine { KEYS } else { &[] }
    }

    /// Returns the paths and the names of the subkeys. The table is sorted, so the rows of one subkey are adjacent.
    fn children(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let start = if self.path.is_empty() { 0 } else { self.path.len() + 1 };
        let mut last = "";
        self.rows().iter().filter_map(move |row| {
            let below = row.path.strip_prefix(self.path)?;
            let below = if start == 0 { below } else { below.strip_prefix('\\')? };
            let name = below.split('\\').next().filter(|name| !name.is_empty())?;
            (name != std::mem::replace(&mut last, name)).then(|| (&row.path[..start + name.len()], name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(KEYS.is_sorted_by(|a, b| a.path < b.path));
    }

    #[test]
    fn keys_are_found_below_each_other_without_regard_to_case() {
        let machine = Key::root(Root::LocalMachine);
        assert_eq!(machine.subkeys(), ["SOFTWARE", "SYSTEM"]);
        let services = machine.find(r"system\CURRENTCONTROLSET\Services").expect("a key");
        assert_eq!(services.subkeys(), ["Eventlog", "LanmanServer", "Netlogon", "Tcpip"]);
        assert_eq!(
            services.find(r"tcpip\parameters"),
            machine.find(r"\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters")
        );
        assert_eq!(services.find(""), Some(services));
        assert_eq!(machine.find("SYS"), None);
        assert_eq!(machine.find(r"SYSTEM\.."), None);
        assert_eq!((Key::root(Root::Empty).find("SYSTEM"), Key::root(Root::Empty).subkeys()), (None, vec![]));
    }
}

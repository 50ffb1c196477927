//! The commands that swap the services.

use std::path::Path;

/// The directories of systemd's units.
const UNITS: [&str; 4] =
    ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// The names that distributions give to Samba's units: Debian's first.
const SAMBA: [[&str; 2]; 2] = [["smbd", "nmbd"], ["smb", "nmb"]];
/// The drop-in without which Frevo cannot write Windows ACLs.
const DROP_IN: &str = "/etc/systemd/system/frevo.service.d/windows-acls.conf";

/// Returns Samba's units as arguments of `systemctl`.
fn samba() -> String {
    let exists = |name: &&str| UNITS.iter().any(|dir| Path::new(dir).join(format!("{name}.service")).exists());
    let found = SAMBA.iter().find(|names| exists(&names[0]));
    match found {
        Some(names) => names.iter().filter(|name| exists(name)).copied().collect::<Vec<_>>().join(" "),
        None => SAMBA[0].join(" "),
    }
}

/// Returns the two commands that stop Samba and start Frevo.
pub(super) fn forth() -> [String; 2] {
    [format!("systemctl disable --now {}", samba()), "systemctl enable --now frevo".to_owned()]
}

/// Returns the two commands that stop Frevo and start Samba.
pub(super) fn back() -> [String; 2] {
    ["systemctl disable --now frevo".to_owned(), format!("systemctl enable --now {}", samba())]
}

/// Returns the command that lets the service write Windows ACLs, if that is not done yet.
pub(super) fn windows_acls() -> Option<String> {
    let command = format!("install -D -m 644 /usr/share/frevo/windows-acls.conf {DROP_IN} && systemctl daemon-reload");
    (!Path::new(DROP_IN).exists()).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_name_both_services() {
        let ([stop, start], [back, again]) = (forth(), back());
        assert!(stop.starts_with("systemctl disable --now smb") && start.ends_with("--now frevo"), "{stop} {start}");
        assert!(back.ends_with("--now frevo") && again.starts_with("systemctl enable --now smb"), "{back} {again}");
    }
}

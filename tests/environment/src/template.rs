//! The configuration of a server under test, made from a template for both targets.

use crate::Target;

/// Fills in a template as described at [`crate::TestEnvironment::start`]. `own` are the target's own lines for
/// `[global]`.
pub(crate) fn fill(template: &str, target: Target, dir: &str, own: &str) -> String {
    let mut out = String::new();
    let mut kept = true;
    for line in template.lines() {
        match line.trim() {
            "#@end" => kept = true,
            "#@samba" => kept = target == Target::Samba,
            "#@frevo" => kept = target == Target::Frevo,
            "@TARGET@" => out.push_str(own),
            _ if kept => {
                out.push_str(&line.replace("@DIR@", dir));
                out.push('\n');
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_other_target_are_omitted() {
        let template = "[global]\n@TARGET@\n#@samba\na = 1\n#@end\n#@frevo\nb = 2\n#@end\n[s]\npath = @DIR@/s\n";
        let own = "smb ports = 1\n";
        assert_eq!(fill(template, Target::Samba, "/d", own), "[global]\nsmb ports = 1\na = 1\n[s]\npath = /d/s\n");
        assert_eq!(fill(template, Target::Frevo, "/d", own), "[global]\nsmb ports = 1\nb = 2\n[s]\npath = /d/s\n");
    }
}

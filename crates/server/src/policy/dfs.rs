//! DFS: shares that refer clients to other servers, by links or as a whole.

/// What a share has to do with DFS. Without `host msdfs`, nothing.
#[derive(Clone, Default, Debug)]
pub struct DfsPolicy {
    /// `msdfs root`: symbolic links whose target begins with `msdfs:` are links of a DFS namespace.
    pub root: bool,
    /// `msdfs proxy`: the targets that stand for the share, which itself cannot be connected to; empty if there is no
    /// proxy.
    pub proxy: Vec<String>,
    /// `msdfs shuffle referrals`: the order of several targets varies.
    pub shuffle: bool,
}

/// How the target of a symbolic link begins that is a DFS link, in any case.
const PREFIX: &[u8] = b"msdfs:";

/// Whether a symbolic link with this target is a DFS link on the root of a namespace.
pub(crate) fn is_link(target: &[u8]) -> bool {
    target.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Returns the targets of a DFS link; none if it is not one.
pub(crate) fn link_targets(target: &[u8]) -> Vec<Vec<u8>> {
    if is_link(target) { targets(&target[PREFIX.len()..]) } else { Vec::new() }
}

/// Returns the targets `\server\share`, possibly with a path below, in a list separated by commas. A slash means a
/// backslash, and any number of them may be at the start. What lacks a server or a share is not a target.
fn targets(list: &[u8]) -> Vec<Vec<u8>> {
    let target = |text: &[u8]| {
        let parts = text.trim_ascii().split(|byte| matches!(byte, b'\\' | b'/')).filter(|part| !part.is_empty());
        let parts: Vec<&[u8]> = parts.collect();
        (parts.len() >= 2).then(|| parts.iter().flat_map(|part| [b"\\", *part].concat()).collect())
    };
    list.split(|byte| *byte == b',').filter_map(target).collect()
}

/// Returns the targets of `msdfs proxy`, or the part of the value that is not a target.
pub fn proxy_targets(value: &str) -> Result<Vec<String>, &str> {
    let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| match targets(part.as_bytes()).into_iter().next().map(String::from_utf8) {
            Some(Ok(target)) => Ok(target),
            _ => Err(part),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, expected: &[&str]) {
        let found: Vec<String> =
            link_targets(target.as_bytes()).into_iter().map(|target| String::from_utf8(target).unwrap()).collect();
        assert_eq!(found, expected, "{target}");
    }

    #[test]
    fn the_targets_of_a_link() {
        check(r"msdfs:a\b", &[r"\a\b"]);
        check(r"MSDFS:a\b\c d\e", &[r"\a\b\c d\e"]);
        check(r"msdfs:\\a\b\, c/d ,,e", &[r"\a\b", r"\c\d"]);
        check("msdfs:", &[]);
        check("msdfs:server", &[]);
        check(r"msdfs: \\ ,a\", &[]);
        check(r"other:a\b", &[]);
        assert!(is_link(b"MsDfs:") && !is_link(b"msdfs") && !is_link(b"a/msdfs:b"));
    }

    #[test]
    fn the_targets_of_a_proxy() {
        assert_eq!(proxy_targets(r"\a\b, c\d\e,"), Ok(vec![r"\a\b".to_owned(), r"\c\d\e".to_owned()]));
        assert_eq!(proxy_targets(""), Ok(Vec::new()));
        assert_eq!(proxy_targets(r"\a\b,server"), Err("server"));
    }
}

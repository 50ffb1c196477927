//! Paths of a DFS namespace: `server\share\path`.

/// Returns the part of a DFS path that is relative to the share ([MS-DFSC] 3.2.4.1), both in UTF-16LE. Backslashes at
/// the start are ignored. As in Samba, a path of a single component is relative to the share already, and neither the
/// server nor the share is compared with anything.
pub fn below_share(path: &[u8]) -> &[u8] {
    const BACKSLASH: &[u8] = b"\\\0";
    let mut path = path;
    // What is not UTF-16 is refused later.
    if !path.len().is_multiple_of(2) {
        return path;
    }
    while let Some(rest) = path.strip_prefix(BACKSLASH) {
        path = rest;
    }
    let separators = path.chunks_exact(2).enumerate().filter(|(_, unit)| *unit == BACKSLASH).map(|(at, _)| at);
    match separators.take(2).collect::<Vec<_>>()[..] {
        [] => path,
        [_] => &[],
        [_, second, ..] => path.get(2 * (second + 1)..).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use proto::bytes::utf16_bytes;

    use super::*;

    #[test]
    fn server_and_share_are_removed() {
        for (path, expected) in [
            ("", ""),
            ("file", "file"),
            (r"server\share", ""),
            (r"server\share\", ""),
            (r"server\share\dir\file", r"dir\file"),
            (r"\server\share\file", "file"),
            (r"\\server\share\dir\", r"dir\"),
            (r"\", ""),
        ] {
            assert_eq!(below_share(&utf16_bytes(path)), utf16_bytes(expected), "{path}");
        }
        assert_eq!(below_share(b"a\0\\\0b"), b"a\0\\\0b");
    }
}

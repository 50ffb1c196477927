//! The links of Markdown files to files of the project.

use std::path::{Component, Path, PathBuf};

use super::{Source, Violation, is};

/// Returns the links of a Markdown file that lead to no file or directory.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    if !is(source, "md") {
        return Vec::new();
    }
    let path = source.path.display();
    let missing = targets(&source.text).filter(|target| !exists(&source.path, target));
    let violation = |target: &str| Violation {
        name: format!("link {path} {target}"),
        what: "there is no such file; correct the link".to_owned(),
    };
    missing.map(violation).collect()
}

/// Returns the targets of `[text](target)` outside code blocks that are paths, without anchors.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    // Every second part is inside a code block.
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|part| part.split("](").skip(1));
    let target = links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let paths = target.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    paths.map(|target| target.split('#').next().unwrap_or_default()).filter(|path| !path.is_empty())
}

/// Returns whether `target`, relative to the Markdown file `from`, exists in the project.
fn exists(from: &Path, target: &str) -> bool {
    let mut path = PathBuf::new();
    for component in from.parent().unwrap_or(Path::new("")).join(target).components() {
        match component {
            Component::ParentDir if !path.pop() => return false,
            Component::ParentDir | Component::CurDir => {}
            other => path.push(other),
        }
    }
    crate::root().join(path).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_no_file_is_found() {
        let of = |path: &str, text: &str| {
            let found = check(&Source { path: path.into(), text: text.into() });
            found.into_iter().map(|violation| violation.name).collect::<Vec<_>>()
        };
        let text = "[a](missing.rs) [b](https://example.org/x) [c](#here) [d](README.md#there)\n```\n[e](no.rs)\n```\n";
        assert_eq!(of("a.md", text), ["link a.md missing.rs"]);
        assert_eq!(of("docs/a.md", "[a](../README.md) [b](README.md) [c](../../x)"), ["link docs/a.md ../../x"]);
        assert_eq!(of("a.rs", "[a](missing.rs)"), [""; 0]);
    }
}

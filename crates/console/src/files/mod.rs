//! The files of the page, which are part of the program.

/// A file.
pub(crate) struct File {
    /// Its path in the URL.
    path: &'static str,
    /// Its content type.
    pub(crate) kind: &'static str,
    /// Its content.
    pub(crate) content: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! files {
    ($(($path:literal, $kind:expr, $file:literal)),* $(,)?) => {
        &[$(File { path: $path, kind: $kind, content: include_bytes!(concat!("../page/", $file)) }),*]
    };
}

const FILES: &[File] = files![
    ("/", HTML, "index.html"),
    ("/openid", HTML, "index.html"),
    ("/style.css", STYLE, "style.css"),
    ("/icon.svg", IMAGE, "icon.svg"),
    ("/main.js", SCRIPT, "main.js"),
    ("/api.js", SCRIPT, "api.js"),
    ("/dom.js", SCRIPT, "dom.js"),
    ("/plot.js", SCRIPT, "plot.js"),
    ("/overview.js", SCRIPT, "overview.js"),
    ("/clients.js", SCRIPT, "clients.js"),
    ("/shares.js", SCRIPT, "shares.js"),
    ("/benchmark.js", SCRIPT, "benchmark.js"),
    ("/files.js", SCRIPT, "files.js"),
    ("/versions.js", SCRIPT, "versions.js"),
    ("/users.js", SCRIPT, "users.js"),
    ("/health.js", SCRIPT, "health.js"),
    ("/openid.js", SCRIPT, "openid.js"),
];

/// Returns the file with exactly this path.
pub(crate) fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

#[cfg(test)]
mod tests;

//! What the page must not have, and the contrast of its colours.

use std::collections::HashMap;

use super::*;

fn text(file: &File) -> &'static str {
    std::str::from_utf8(file.content).expect("UTF-8")
}

fn named(path: &str) -> &'static str {
    text(find(path).expect("a file"))
}

#[test]
fn the_page_loads_only_its_own_files() {
    for file in FILES {
        for outside in ["http://", "https://", "url(", "@import", "//cdn"] {
            // The name of the format, which is not loaded.
            let own = text(file).replace("http://www.w3.org/2000/svg", "");
            assert!(!own.contains(outside), "{}: {outside}", file.path);
        }
    }
    for file in FILES.iter().filter(|file| file.kind == SCRIPT) {
        for import in text(file).lines().filter_map(|line| line.split_once(" from \"./")) {
            let name = import.1.split('"').next().expect("a name");
            assert!(find(&format!("/{name}")).is_some(), "{} imports {name}", file.path);
        }
    }
}

#[test]
fn no_script_makes_elements_from_text() {
    for file in FILES.iter().filter(|file| file.kind == SCRIPT || file.kind == HTML) {
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            " style=",
            "onclick=",
        ];
        for way in ways {
            assert!(!text(file).contains(way), "{}: {way}", file.path);
        }
    }
}

/// Returns the colours of a block of the style sheet.
fn colours(block: &str) -> HashMap<&str, [f64; 3]> {
    let declarations = block.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(':'));
    let colour = |text: &str| {
        let digits = text.trim().strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map(f64::from);
        Some([part(0).ok()?, part(2).ok()?, part(4).ok()?])
    };
    declarations.filter_map(|(name, value)| Some((name, colour(value)?))).collect()
}

/// The relative luminance of WCAG 2.
fn luminance(colour: [f64; 3]) -> f64 {
    let linear = colour
        .map(|part| part / 255.0)
        .map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn texts_have_the_contrast_of_wcag_aa() {
    let style = named("/style.css");
    let mut blocks = style.split(":root {").skip(1).map(|rest| rest.split('}').next().expect("an end"));
    let (light, dark) = (blocks.next().expect("light"), blocks.next().expect("dark"));
    assert!(style.contains("prefers-color-scheme: dark"));
    for colours in [colours(light), colours(dark)] {
        let of = |name: &str| *colours.get(name).unwrap_or_else(|| panic!("no colour {name}"));
        for (text, backs, least) in [
            ("text", ["ground", "panel", "soft"], 4.5),
            ("quiet", ["ground", "panel", "soft"], 4.5),
            ("accent", ["ground", "panel", "soft"], 4.5),
            ("bad", ["ground", "panel", "bad-soft"], 4.5),
            ("warn", ["ground", "panel", "warn-soft"], 4.5),
            ("good", ["ground", "panel", "soft"], 4.5),
            ("on-accent", ["accent", "accent", "accent"], 4.5),
            ("on-bad", ["bad", "bad", "bad"], 4.5),
            ("edge", ["ground", "panel", "panel"], 3.0),
            ("line-a", ["panel", "panel", "panel"], 3.0),
            ("line-b", ["panel", "panel", "panel"], 3.0),
        ] {
            for back in backs {
                let ratio = contrast(of(text), of(back));
                assert!(ratio >= least, "{text} on {back}: {ratio:.2}");
            }
        }
    }
    assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 0.01);
}

//! Names in one case, for shares that do not preserve the case of new names.

use super::{fold_unit, same};

/// The case of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capitals {
    /// Small letters.
    Lower,
    /// Capital letters.
    Upper,
}

/// Returns the name in this case. It is the same name for a share that ignores case.
pub fn with_capitals(name: &[u8], capitals: Capitals) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(name) else { return name.to_vec() };
    let converted: String = text.chars().map(|character| converted(character, capitals)).collect();
    match same(converted.as_bytes(), name) {
        true => converted.into_bytes(),
        false => name.to_vec(),
    }
}

/// Returns the letter in this case if it has one that compares equal.
fn converted(character: char, capitals: Capitals) -> char {
    let single = |mut letters: Box<dyn Iterator<Item = char>>| letters.next().filter(|_| letters.next().is_none());
    let other = match capitals {
        Capitals::Lower => single(Box::new(character.to_lowercase())),
        Capitals::Upper => single(Box::new(character.to_uppercase())),
    };
    let fold = |character: char| u16::try_from(u32::from(character)).ok().map(fold_unit);
    other.filter(|&other| fold(other).is_some() && fold(other) == fold(character)).unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_one_case_stay_the_same_name() {
        for (name, lower, upper) in [
            ("Foo.TXT", "foo.txt", "FOO.TXT"),
            ("Straße Ä", "straße ä", "STRAßE Ä"),
            // Letters whose other case is another letter for Windows stay as they are.
            ("İı", "İı", "İı"),
            ("ΣΑΣ", "σασ", "ΣΑΣ"),
            ("", "", ""),
        ] {
            for (capitals, expected) in [(Capitals::Lower, lower), (Capitals::Upper, upper)] {
                let converted = with_capitals(name.as_bytes(), capitals);
                assert_eq!(String::from_utf8(converted.clone()).expect("text"), expected);
                assert!(same(&converted, name.as_bytes()));
            }
        }
        assert_eq!(with_capitals(b"\xffA", Capitals::Lower), b"\xffA", "it is not text");
    }
}

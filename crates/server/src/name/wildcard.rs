//! Search patterns: whether a name is in an expression ([MS-FSA] 2.1.4.4).
//!
//! The pattern is run as an automaton whose set of positions is advanced by each unit of the name, so the time is at
//! most the product of the two lengths, whatever the pattern.

use super::{MAX_COMPONENT, NameError, fold_unit};

/// DOS_STAR: any units up to the last dot of the name.
const DOS_STAR: u16 = b'<' as u16;
/// DOS_QM: one unit, or nothing before a dot and at the end.
const DOS_QM: u16 = b'>' as u16;
/// DOS_DOT: a dot, or nothing at the end.
const DOS_DOT: u16 = b'"' as u16;
const STAR: u16 = b'*' as u16;
const QUESTION: u16 = b'?' as u16;
const DOT: u16 = b'.' as u16;

/// A search pattern, ready to be matched with many names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    shape: Shape,
    ignore_case: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Shape {
    /// `*` or `*.*`: every name.
    Everything,
    /// No wildcard: one name.
    Exact(Box<[u16]>),
    /// `*` and then no wildcard: names that end so.
    Tail(Box<[u16]>),
    /// Anything else, runs of `*` made one.
    Expression(Box<[u16]>),
}

/// Whether a UTF-16 unit is a wildcard ([MS-FSA] 2.1.4.3).
pub fn is_wildcard(unit: u16) -> bool {
    matches!(unit, DOS_DOT | STAR | DOS_STAR | DOS_QM | QUESTION)
}

impl Pattern {
    /// The pattern of a directory query. Refused where it is longer than a name can be, or holds what no name and no
    /// pattern may ([MS-FSCC] 2.1.5.2). The empty pattern matches no name.
    pub fn new(units: &[u16], ignore_case: bool) -> Result<Pattern, NameError> {
        let legal = |&unit: &u16| is_wildcard(unit) || super::is_legal(unit);
        if units.len() > MAX_COMPONENT || !units.iter().all(legal) {
            return Err(NameError::Invalid);
        }
        let everything = units == [STAR, DOT, STAR];
        let shape = if everything { Shape::Everything } else { Shape::of(units, ignore_case) };
        Ok(Pattern { shape, ignore_case })
    }

    /// The pattern of a configuration list, where `*.*` asks for a dot.
    pub(super) fn of_list(units: &[u16], ignore_case: bool) -> Pattern {
        Pattern { shape: Shape::of(units, ignore_case), ignore_case }
    }

    /// Whether every name matches.
    pub fn is_everything(&self) -> bool {
        self.shape == Shape::Everything
    }

    /// The one name that the pattern can match, upper-cased where case does not matter; `None` where it has wildcards.
    pub fn exact(&self) -> Option<&[u16]> {
        match &self.shape {
            Shape::Exact(units) => Some(units),
            _ => None,
        }
    }

    /// Whether `name`, in the form that clients see ([`super::to_wire`]), matches.
    pub fn matches(&self, name: &[u16]) -> bool {
        let equal = |a: &[u16], b: &[u16]| a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| a == self.unit(b));
        match &self.shape {
            _ if name.is_empty() => matches!(&self.shape, Shape::Exact(units) if units.is_empty()),
            Shape::Everything => true,
            Shape::Exact(units) => equal(units, name),
            Shape::Tail(units) => name.len() >= units.len() && equal(units, &name[name.len() - units.len()..]),
            Shape::Expression(units) => self.run(units, name),
        }
    }

    fn unit(&self, unit: u16) -> u16 {
        if self.ignore_case { fold_unit(unit) } else { unit }
    }

    /// Runs the automaton. `positions[i]` says that the units so far can be matched by `expression[..i]`.
    fn run(&self, expression: &[u16], name: &[u16]) -> bool {
        let last_dot = name.iter().rposition(|&unit| unit == DOT);
        let mut positions = vec![false; expression.len() + 1];
        positions[0] = true;
        for (index, &unit) in name.iter().enumerate() {
            let next = Next { unit: Some(self.unit(unit)), last_dot: last_dot == Some(index) };
            if !next.advance(expression, &mut positions) {
                return false;
            }
        }
        let end = Next { unit: None, last_dot: false };
        end.skip(expression, &mut positions);
        positions[expression.len()]
    }
}

impl Shape {
    fn of(units: &[u16], ignore_case: bool) -> Shape {
        let mut folded: Vec<u16> = units.iter().map(|&unit| if ignore_case { fold_unit(unit) } else { unit }).collect();
        folded.dedup_by(|a, b| *a == STAR && *b == STAR);
        let wild = folded.iter().filter(|&&unit| is_wildcard(unit)).count();
        match folded.split_first() {
            Some((&STAR, [])) => Shape::Everything,
            Some((&STAR, tail)) if wild == 1 => Shape::Tail(tail.into()),
            _ if wild == 0 => Shape::Exact(folded.into()),
            _ => Shape::Expression(folded.into()),
        }
    }
}

/// What the automaton sees of the name.
struct Next {
    /// The unit to match; `None` at the end of the name.
    unit: Option<u16>,
    /// Whether it is the last dot of the name.
    last_dot: bool,
}

impl Next {
    /// Reaches the positions that need no unit of the name.
    fn skip(&self, expression: &[u16], positions: &mut [bool]) {
        for (index, &wild) in expression.iter().enumerate() {
            let free = match wild {
                STAR | DOS_STAR => true,
                DOS_QM => self.unit.is_none_or(|unit| unit == DOT),
                DOS_DOT => self.unit.is_none(),
                _ => false,
            };
            positions[index + 1] |= positions[index] && free;
        }
    }

    /// Matches the unit; answers whether any position is left.
    fn advance(&self, expression: &[u16], positions: &mut [bool]) -> bool {
        self.skip(expression, positions);
        let mut any = false;
        // From the back, so that a position is read before the step of its predecessor overwrites it.
        for index in (0..positions.len()).rev() {
            let stays = positions[index]
                && match expression.get(index) {
                    Some(&STAR) => true,
                    Some(&DOS_STAR) => !self.last_dot,
                    _ => false,
                };
            let comes = index > 0 && positions[index - 1] && self.takes(expression[index - 1]);
            positions[index] = stays || comes;
            any |= positions[index];
        }
        any
    }

    /// Whether `wild` takes exactly this one unit and is done.
    fn takes(&self, wild: u16) -> bool {
        match wild {
            STAR | DOS_STAR => false,
            QUESTION => true,
            DOS_QM => self.unit != Some(DOT),
            DOS_DOT => self.unit == Some(DOT),
            literal => self.unit == Some(literal),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(&units(pattern), true).unwrap().matches(&units(name))
    }

    #[test]
    fn expressions() {
        let cases: [(&str, &[&str], &[&str]); 22] = [
            ("*", &["a", "a.b", ".a"], &[""]),
            ("*.*", &["a", "a.b"], &[""]),
            ("", &[""], &["a"]),
            ("a", &["a", "A"], &["b", "aa", ""]),
            ("*.txt", &["a.TXT", ".txt", "a.b.txt"], &["a.txt.b", "txt"]),
            ("a*", &["a", "ab", "A.b"], &["ba"]),
            ("*a*", &["a", "bab"], &["b"]),
            ("?", &["a", "."], &["ab", ""]),
            ("a?c", &["abc", "a.c"], &["ac", "abbc"]),
            ("??", &["ab"], &["a", "abc"]),
            // DOS_STAR: "*." of the Windows API arrives as "<".
            ("<", &["a", "abc"], &["a.b", "a.b.c"]),
            ("<.b", &["a.b", "a.b.b", "a.c.b"], &["a.b.c", "b", "ab"]),
            ("<.", &["a.", "a.b."], &["a", "a.b"]),
            ("<\"*", &["a", "a.b", "a.b.c", "a."], &[""]),
            ("a<.dc", &["a.dc", "ab.c.dc"], &["a.dc.e", "adc"]),
            // DOS_QM: "?" of the Windows API.
            (">", &["a"], &["ab", "a.b"]),
            (">>>", &["a", "ab", "abc"], &["abcd", "a.b"]),
            (">>>.b", &["a.b", "abc.b", ".b"], &["abcd.b"]),
            ("a>>b", &["axyb"], &["ab", "axb"]),
            // DOS_DOT: "." before a wildcard of the Windows API.
            ("a\"b", &["a.b"], &["ab", "a"]),
            ("a\"", &["a", "a."], &["ab", "a.b"]),
            (">>>>>>>>\">>>", &["a", "foo.txt", "12345678.abc"], &["123456789", "a.abcd"]),
        ];
        for (pattern, yes, no) in cases {
            for name in yes {
                assert!(matches(pattern, name), "{name} in {pattern}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{name} not in {pattern}");
            }
        }
    }

    #[test]
    fn case_matters_only_where_asked() {
        let sensitive = Pattern::new(&units("A*ä"), false).unwrap();
        assert!(sensitive.matches(&units("Abä")) && !sensitive.matches(&units("abä")));
        assert!(matches("a*ä", "ABÄ"));
        assert_eq!(Pattern::new(&units("Ab"), true).unwrap().exact(), Some(&units("AB")[..]));
    }

    #[test]
    fn refused_patterns() {
        for pattern in ["a\\b", "a/b", "a|b", "a\0", "a:b"] {
            assert_eq!(Pattern::new(&units(pattern), true), Err(NameError::Invalid), "{pattern}");
        }
        assert!(Pattern::new(&units(&"*".repeat(256)), true).is_err());
    }

    #[test]
    fn a_hostile_pattern_costs_no_more_than_the_product_of_the_lengths() {
        let pattern = format!("{}b", "*a".repeat(120));
        assert!(!matches(&pattern, &"a".repeat(255)));
        assert!(matches(&pattern, &format!("{}b", "a".repeat(254))));
        assert!(!matches(&format!("{}b", "<a".repeat(120)), &"a".repeat(255)));
    }

    /// The rules, one after the other, by trying everything.
    fn naive(pattern: &[u16], name: &[u16]) -> bool {
        let Some((&wild, behind)) = pattern.split_first() else { return name.is_empty() };
        let step = || naive(behind, &name[1..]);
        let has_later_dot = || name[1..].contains(&DOT);
        match (wild, name.first()) {
            (STAR | DOS_STAR, None) => naive(behind, name),
            (STAR, Some(_)) => naive(behind, name) || naive(pattern, &name[1..]),
            (DOS_STAR, Some(&unit)) => {
                naive(behind, name) || ((unit != DOT || has_later_dot()) && naive(pattern, &name[1..]))
            }
            (DOS_QM, None | Some(&DOT)) => naive(behind, name),
            (DOS_QM, Some(_)) => step(),
            (DOS_DOT, None) => naive(behind, name),
            (DOS_DOT, Some(&unit)) => unit == DOT && step(),
            (QUESTION, Some(_)) => step(),
            (literal, Some(&unit)) => unit == literal && step(),
            (_, None) => false,
        }
    }

    proptest! {
        #[test]
        fn the_automaton_agrees_with_trying_everything(
            pattern in proptest::collection::vec(proptest::sample::select(units("AB.*?<>\"")), 0..9),
            name in proptest::collection::vec(proptest::sample::select(units("AB.")), 1..9),
        ) {
            let everything = pattern == units("*.*");
            let found = Pattern::new(&pattern, true).unwrap().matches(&name);
            prop_assert_eq!(found, everything || naive(&pattern, &name));
        }
    }
}

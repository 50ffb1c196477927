//! Search patterns: whether a name is in an expression ([MS-FSA] 2.1.4.4).
//!
//! The pattern is executed as an automaton. Its set of positions is four words, advanced by each unit of the name in a
//! fixed number of steps. The time therefore depends only on the length of the name, not on the pattern.

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

/// A search pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    shape: Shape,
    ignore_case: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Shape {
    /// `*` or `*.*`: every name.
    Everything,
    /// No wildcard: a single name.
    Exact(Box<[u16]>),
    /// `*` followed by no wildcard: names with this suffix.
    Tail(Box<[u16]>),
    /// Anything else, with runs of `*` merged.
    Expression(Box<[u16]>),
}

/// A pattern prepared for matching many names. It takes a few KiB and is quick to create, so patterns that are kept for
/// long are stored as [`Pattern`].
#[derive(Clone, Debug)]
pub struct Matcher {
    pattern: Pattern,
    /// Present for an expression.
    automaton: Option<Box<Automaton>>,
}

/// Returns whether a UTF-16 unit is a wildcard ([MS-FSA] 2.1.4.3).
pub fn is_wildcard(unit: u16) -> bool {
    matches!(unit, DOS_DOT | STAR | DOS_STAR | DOS_QM | QUESTION)
}

impl Pattern {
    /// Creates the pattern of a directory query. Returns an error if it is longer than a name can be or contains an
    /// invalid character ([MS-FSCC] 2.1.5.2). The empty pattern matches no name.
    pub fn new(units: &[u16], ignore_case: bool) -> Result<Pattern, NameError> {
        let legal = |&unit: &u16| is_wildcard(unit) || super::is_legal(unit);
        if units.len() > MAX_COMPONENT || !units.iter().all(legal) {
            return Err(NameError::Invalid);
        }
        let everything = units == [STAR, DOT, STAR];
        let shape = if everything { Shape::Everything } else { Shape::of(units, ignore_case) };
        Ok(Pattern { shape, ignore_case })
    }

    /// Creates a pattern from a configuration list, where `*.*` requires a dot.
    pub(super) fn of_list(units: &[u16], ignore_case: bool) -> Pattern {
        Pattern { shape: Shape::of(units, ignore_case), ignore_case }
    }

    /// Returns the only name that can match, in upper case if case is ignored; `None` if the pattern has wildcards.
    pub fn exact(&self) -> Option<&[u16]> {
        match &self.shape {
            Shape::Exact(units) => Some(units),
            _ => None,
        }
    }

    /// Prepares the pattern for matching.
    pub fn matcher(&self) -> Matcher {
        let automaton = match &self.shape {
            Shape::Expression(units) => Some(Box::new(Automaton::of(units))),
            _ => None,
        };
        Matcher { pattern: self.clone(), automaton }
    }

    fn unit(&self, unit: u16) -> u16 {
        if self.ignore_case { fold_unit(unit) } else { unit }
    }
}

impl Matcher {
    /// Returns whether `name`, in the form that clients see ([`super::to_wire`]), matches.
    pub fn matches(&self, name: &[u16]) -> bool {
        let fold = |&unit: &u16| self.pattern.unit(unit);
        let equal = |a: &[u16], b: &[u16]| a.len() == b.len() && a.iter().zip(b).all(|(&a, b)| a == fold(b));
        match &self.pattern.shape {
            shape if name.is_empty() => matches!(shape, Shape::Exact(units) if units.is_empty()),
            Shape::Everything => true,
            Shape::Exact(units) => equal(units, name),
            Shape::Tail(units) => name.len() >= units.len() && equal(units, &name[name.len() - units.len()..]),
            Shape::Expression(_) => {
                self.automaton.as_ref().is_some_and(|automaton| automaton.run(name.iter().map(fold)))
            }
        }
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

/// A set of positions: bit `i` is the position before unit `i` of the expression, which has at most 255 units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Positions([u64; 4]);

impl Positions {
    fn set(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn has(self, at: usize) -> bool {
        self.0[at / 64] & 1 << (at % 64) != 0
    }

    fn is_empty(self) -> bool {
        self == Positions::default()
    }

    fn and(self, other: Positions) -> Positions {
        Positions(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    fn or(self, other: Positions) -> Positions {
        Positions(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    fn xor(self, other: Positions) -> Positions {
        Positions(std::array::from_fn(|word| self.0[word] ^ other.0[word]))
    }

    /// Returns each position moved past its unit.
    fn advanced(self) -> Positions {
        Positions(std::array::from_fn(|word| {
            let carried = if word > 0 { self.0[word - 1] >> 63 } else { 0 };
            self.0[word] << 1 | carried
        }))
    }

    /// Returns the sum of both as 256-bit numbers.
    fn plus(self, other: Positions) -> Positions {
        let mut carry = false;
        Positions(std::array::from_fn(|word| {
            let (sum, first) = self.0[word].overflowing_add(other.0[word]);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            sum
        }))
    }

    /// Returns these positions and all that can be reached by skipping the units in `free`.
    fn passing(self, free: Positions) -> Positions {
        // The addition carries each position through its run of free units to the position after the run.
        self.or(free.plus(self.and(free)).xor(free))
    }
}

/// The kinds of an expression's units, as sets of positions.
#[derive(Clone, Debug)]
struct Automaton {
    /// The literal units, sorted, with their positions.
    literals: Box<[(u16, Positions)]>,
    /// `?`: any unit.
    any: Positions,
    /// `*`.
    stars: Positions,
    dos_stars: Positions,
    dos_marks: Positions,
    dos_dots: Positions,
    /// The position after the expression.
    end: usize,
}

impl Automaton {
    fn of(expression: &[u16]) -> Automaton {
        let none = Positions::default;
        let mut automaton = Automaton {
            literals: Box::default(),
            any: none(),
            stars: none(),
            dos_stars: none(),
            dos_marks: none(),
            dos_dots: none(),
            end: expression.len().min(MAX_COMPONENT),
        };
        let mut literals = std::collections::BTreeMap::<u16, Positions>::new();
        for (at, &unit) in expression.iter().enumerate().take(MAX_COMPONENT) {
            let set = match unit {
                QUESTION => &mut automaton.any,
                STAR => &mut automaton.stars,
                DOS_STAR => &mut automaton.dos_stars,
                DOS_QM => &mut automaton.dos_marks,
                DOS_DOT => &mut automaton.dos_dots,
                literal => literals.entry(literal).or_default(),
            };
            set.set(at);
        }
        automaton.literals = literals.into_iter().collect();
        automaton
    }

    /// Returns whether the expression matches the whole name.
    fn run(&self, name: impl DoubleEndedIterator<Item = u16> + Clone + ExactSizeIterator) -> bool {
        let last_dot = name.clone().rposition(|unit| unit == DOT);
        let stars = self.stars.or(self.dos_stars);
        let mut positions = Positions::default();
        positions.set(0);
        for (index, unit) in name.enumerate() {
            count_step();
            let free = if unit == DOT { stars.or(self.dos_marks) } else { stars };
            positions = positions.passing(free);
            // A DOS_STAR stops at the last dot of the name.
            let staying = if last_dot == Some(index) { self.stars } else { stars };
            positions = positions.and(staying).or(positions.and(self.takers(unit)).advanced());
            if positions.is_empty() {
                return false;
            }
        }
        positions.passing(stars.or(self.dos_marks).or(self.dos_dots)).has(self.end)
    }

    /// Returns the positions whose unit consumes this unit of the name completely.
    fn takers(&self, unit: u16) -> Positions {
        let found = self.literals.binary_search_by_key(&unit, |(literal, _)| *literal);
        let literal = found.map_or(Positions::default(), |at| self.literals[at].1);
        literal.or(self.any).or(if unit == DOT { self.dos_dots } else { self.dos_marks })
    }
}

/// Counts matching steps in tests.
fn count_step() {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    thread_local! {
        pub(super) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(&units(pattern), true).unwrap().matcher().matches(&units(name))
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
            // DOS_STAR: the Windows API sends "*." as "<".
            ("<", &["a", "abc"], &["a.b", "a.b.c"]),
            ("<.b", &["a.b", "a.b.b", "a.c.b"], &["a.b.c", "b", "ab"]),
            ("<.", &["a.", "a.b."], &["a", "a.b"]),
            ("<\"*", &["a", "a.b", "a.b.c", "a."], &[""]),
            ("a<.dc", &["a.dc", "ab.c.dc"], &["a.dc.e", "adc"]),
            // DOS_QM: "?" in the Windows API.
            (">", &["a"], &["ab", "a.b"]),
            (">>>", &["a", "ab", "abc"], &["abcd", "a.b"]),
            (">>>.b", &["a.b", "abc.b", ".b"], &["abcd.b"]),
            ("a>>b", &["axyb"], &["ab", "axb"]),
            // DOS_DOT: "." before a wildcard in the Windows API.
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
    fn case_matters_only_if_requested() {
        let sensitive = Pattern::new(&units("A*ä"), false).unwrap();
        let sensitive = sensitive.matcher();
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
    fn a_hostile_pattern_costs_no_more_than_the_length_of_the_name() {
        let (longest, name) = ("*a".repeat(127) + "b", "a".repeat(255));
        let steps = |pattern: &str, name: &str| {
            STEPS.set(0);
            (matches(pattern, name), STEPS.get())
        };
        assert_eq!(steps(&longest, &name), (false, 255));
        assert_eq!(steps(&("*a".repeat(120) + "b"), &("a".repeat(254) + "b")), (true, 255));
        assert_eq!(steps(&("<a".repeat(120) + "b"), &name), (false, 255));
        assert_eq!(steps(&(">".repeat(254) + "b"), &name), (false, 255));
        assert_eq!(steps(&("?".repeat(254) + "*"), &name), (true, 255));
        assert_eq!(steps(&("\"".repeat(254) + "*"), &".".repeat(255)), (true, 255));
    }

    /// A simple version of the automaton, whose steps are the product of both lengths.
    fn by_positions(expression: &[u16], name: &[u16]) -> bool {
        let last_dot = name.iter().rposition(|&unit| unit == DOT);
        let skip = |unit: Option<u16>, positions: &mut [bool]| {
            for (index, &wild) in expression.iter().enumerate() {
                let free = match wild {
                    STAR | DOS_STAR => true,
                    DOS_QM => unit.is_none_or(|unit| unit == DOT),
                    DOS_DOT => unit.is_none(),
                    _ => false,
                };
                positions[index + 1] |= positions[index] && free;
            }
        };
        let mut positions = vec![false; expression.len() + 1];
        positions[0] = true;
        for (at, &unit) in name.iter().enumerate() {
            skip(Some(unit), &mut positions);
            let before = positions.clone();
            for index in 0..positions.len() {
                let stays = match expression.get(index) {
                    Some(&STAR) => true,
                    Some(&DOS_STAR) => last_dot != Some(at),
                    _ => false,
                };
                let takes = index > 0
                    && match expression[index - 1] {
                        STAR | DOS_STAR => false,
                        QUESTION => true,
                        DOS_QM => unit != DOT,
                        DOS_DOT => unit == DOT,
                        literal => unit == literal,
                    };
                positions[index] = before[index] && stays || takes && before[index - 1];
            }
        }
        skip(None, &mut positions);
        positions[expression.len()]
    }

    /// A backtracking implementation of the rules.
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
            let found = Pattern::new(&pattern, true).unwrap().matcher().matches(&name);
            prop_assert_eq!(found, everything || naive(&pattern, &name));
        }

        #[test]
        fn bit_sets_of_positions_agree_with_single_positions(
            pattern in proptest::collection::vec(
                prop_oneof![
                    3 => proptest::sample::select(units("AB.")),
                    1 => proptest::sample::select(units("*?<>\"")),
                ],
                1..=255,
            ),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
            name in proptest::collection::vec(proptest::sample::select(units("AB.")), 1..=255),
            from_pattern: bool,
        ) {
            // Random names rarely match a long pattern; names derived from the pattern often do.
            let mut name = if from_pattern {
                pattern.iter().map(|&unit| if is_wildcard(unit) { u16::from(b'A') } else { unit }).collect()
            } else {
                name
            };
            for cut in cuts {
                let at = cut.index(name.len());
                if name.len() > 1 {
                    name.remove(at);
                }
            }
            let found = Pattern::new(&pattern, true).unwrap().matcher().matches(&name);
            prop_assert_eq!(found, pattern == units("*.*") || by_positions(&pattern, &name));
        }
    }
}

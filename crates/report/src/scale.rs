//! Axes: their ranges, the positions of their marks, and the labels.
//!
//! Values may be arbitrary. A range is widened until it can be drawn, and no loop here runs more often than there are
//! marks.

use crate::units;

/// Values with a larger magnitude are not drawn.
pub(super) const LARGEST: f64 = 1e100;

/// A labelled mark.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// One axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scale {
    logarithmic: bool,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<Tick>,
    /// Marks without a label, only on logarithmic axes.
    pub(super) minor: Vec<f64>,
}

/// The values that an axis must show.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Extent {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Whether all values are whole numbers. Marks between them would be meaningless.
    pub(super) whole: bool,
    /// Whether all values are powers of two. Marks at powers of ten would miss almost all of them.
    pub(super) binary: bool,
}

impl Extent {
    /// Returns the extent of the values that can be drawn, or `None` if there are none.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        values.filter(|value| value.abs() <= LARGEST).fold(None, |extent, value| {
            let whole = value.fract() == 0.0;
            let binary = (1.0..=1e15).contains(&value) && whole && (value as u64).is_power_of_two();
            let extent: Self = extent.unwrap_or(Self { low: value, high: value, whole, binary });
            let (low, high) = (extent.low.min(value), extent.high.max(value));
            Some(Self { low, high, whole: extent.whole && whole, binary: extent.binary && binary })
        })
    }
}

impl Scale {
    /// Returns the horizontal axis, with at most `limit` labels. Its range is that of the data with a small margin,
    /// starting at zero if zero is near.
    pub(super) fn across(extent: Extent, logarithmic: bool, limit: usize) -> Self {
        if logarithmic {
            let (low, high) = positive(extent);
            let air = if high / low < 1.01 { 2.0 } else { (high / low).powf(0.04) };
            return Self::logarithmic(low / air, high * air, extent, limit);
        }
        let Extent { low, high, whole, .. } = extent;
        let (low, high) = widened(low, high);
        let air = (high - low) * 0.04;
        let near_zero = low >= 0.0 && low <= high * 0.25;
        let step = step((high - low) / limit.max(1) as f64);
        let step = if whole { step.max(1.0) } else { step };
        let start = if near_zero { 0.0 } else { low - air };
        Self::linear(start, high + air, step, limit)
    }

    /// Returns the vertical axis. A linear axis starts at zero. The axis ends at a mark.
    pub(super) fn up(extent: Extent, logarithmic: bool, limit: usize) -> Self {
        if logarithmic {
            let (low, high) = positive(extent);
            return Self::logarithmic(floor(low / 1.05), ceil(high * 1.05), extent, limit);
        }
        let (low, high) = (extent.low.min(0.0), extent.high.max(0.0));
        let (low, high) = if low == high { (0.0, 1.0) } else { (low, high) };
        let step = step((high - low) / limit.max(1) as f64);
        Self::linear((low / step).floor() * step, (high / step).ceil() * step, step, limit)
    }

    /// Like [`Scale::up`], but a logarithmic axis starts at a power of ten below the smallest bar.
    pub(super) fn bars(extent: Extent, logarithmic: bool, limit: usize) -> Self {
        if !logarithmic {
            return Self::up(extent, logarithmic, limit);
        }
        let (low, high) = positive(extent);
        Self::logarithmic(10f64.powf((low * 0.7).log10().floor()), ceil(high * 1.05), extent, limit)
    }

    fn linear(low: f64, high: f64, step: f64, limit: usize) -> Self {
        let first = (low / step - 1e-6).ceil();
        let ticks = (0..limit + 3).map(|index| (first + index as f64) * step);
        let ticks = ticks.take_while(|at| *at <= high + step * 1e-6);
        let ticks = ticks.map(|at| Tick { at, label: label(at, step) }).collect();
        Self { logarithmic: false, low, high, ticks, minor: Vec::new() }
    }

    fn logarithmic(low: f64, high: f64, extent: Extent, limit: usize) -> Self {
        if extent.binary && extent.high >= extent.low * 4.0 {
            return Self { logarithmic: true, low, high, ticks: binary(extent, limit.max(2)), minor: Vec::new() };
        }
        let all = within(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], low, high);
        let ticks = marks(low, high, extent, limit.max(2));
        let decades = (high / low).log10();
        let minor = if decades <= 8.0 && ticks.len() > 1 { all } else { Vec::new() };
        let ticks: Vec<Tick> = if ticks.len() > 1 {
            ticks.into_iter().map(|at| Tick { at, label: power(at) }).collect()
        } else {
            // The range is smaller than the distance between two marks, so the marks of a linear axis are used.
            Self::linear(low, high, step((high - low) / limit.max(2) as f64), limit).ticks
        };
        let minor = minor.into_iter().filter(|at| ticks.iter().all(|tick| (tick.at / at - 1.0).abs() > 1e-6)).collect();
        Self { logarithmic: true, low, high, ticks, minor }
    }

    /// Returns the position of `value` on the axis: 0 at the low end, 1 at the high end, and never outside.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            if value <= 0.0 {
                return 0.0;
            }
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// Returns the value at which bars begin: zero, or the low end if zero cannot be shown.
    pub(super) fn base(&self) -> f64 {
        if self.logarithmic { self.low } else { 0.0 }
    }
}

/// Returns marks at powers of two, every one or as many as fit.
fn binary(extent: Extent, limit: usize) -> Vec<Tick> {
    let (first, last) = (extent.low.log2().round() as i32, extent.high.log2().round() as i32);
    let every = ((last - first + 1) as usize).div_ceil(limit);
    let all = (first..=last).step_by(every).map(|exponent| 2f64.powi(exponent));
    all.map(|at| Tick { at, label: units::number(at) }).collect()
}

/// Returns the marks of a logarithmic axis: powers of ten if those are enough, otherwise with steps between them.
fn marks(low: f64, high: f64, extent: Extent, limit: usize) -> Vec<f64> {
    let thirds: &[f64] = &[1.0, 3.0];
    let fine: &[f64] = &[1.0, 2.0, 5.0];
    let ends = |steps: &[f64]| {
        [extent.low, extent.high].iter().filter(|end| within(steps, **end / 1.001, **end * 1.001).len() == 1).count()
    };
    let order = if ends(fine) > ends(thirds) { [fine, thirds] } else { [thirds, fine] };
    let decades = within(&[1.0], low, high);
    if decades.len() >= 4 {
        let every = decades.len().div_ceil(limit);
        return decades.into_iter().step_by(every).collect();
    }
    let few: Vec<Vec<f64>> = order.iter().map(|steps| within(steps, low, high)).collect();
    let all = within(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], low, high);
    let fits = |marks: &Vec<f64>| marks.len() <= limit;
    let enough = few.iter().find(|marks| marks.len() >= 4 && fits(marks));
    let dense = (all.len() <= 9 && fits(&all)).then_some(&all);
    let sparse = few.iter().filter(|marks| fits(marks)).max_by_key(|marks| marks.len());
    enough.or(dense).or(sparse).cloned().unwrap_or(decades)
}

/// Returns `steps` times each power of ten that lies in the range.
fn within(steps: &[f64], low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all = (first..=last).flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    all.filter(|at| (low * 0.999_999..=high * 1.000_001).contains(at)).collect()
}

/// Returns the positive range of a logarithmic axis.
fn positive(extent: Extent) -> (f64, f64) {
    let high = if extent.high > 0.0 { extent.high.clamp(1.0 / LARGEST, LARGEST) } else { 1.0 };
    let low = if extent.low > 0.0 { extent.low.clamp(1.0 / LARGEST, high) } else { high / 1000.0 };
    (low, high)
}

/// Rounds down to 1, 2 or 5 times a power of ten.
fn floor(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].iter().map(|step| step * decade).find(|at| *at <= value).unwrap_or(decade)
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn ceil(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|step| step * decade).find(|at| *at >= value).unwrap_or(decade * 10.0)
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    if least > 0.0 { ceil(least * 0.999_999) } else { 1.0 }
}

/// Widens a range until it can be drawn.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let least = low.abs().max(high.abs()) * 1e-6;
    if high - low > least {
        return (low, high);
    }
    let by = if low == 0.0 { 1.0 } else { (low.abs() * 0.1).max(least) };
    (low - by, high + by)
}

/// Returns the label of a mark on a linear axis, with enough digits to distinguish it from the next.
fn label(at: f64, step: f64) -> String {
    if at == 0.0 || at.abs() < step * 1e-3 {
        return "0".to_owned();
    }
    let size = at.abs();
    if !(1e-4..1e15).contains(&size) {
        return format!("{at:.1e}").replacen(".0e", "e", 1);
    }
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    let (factor, prefix) = prefixes.into_iter().find(|(factor, _)| size >= factor * 0.999_999).unwrap_or((1.0, ""));
    let decimals = (-(step / factor).log10().floor()).clamp(0.0, 8.0) as usize;
    if factor > 1.0 && decimals > 1 && size < 1e6 {
        let decimals = (-step.log10().floor()).clamp(0.0, 8.0) as usize;
        return units::grouped(&format!("{at:.decimals$}"));
    }
    let text = format!("{:.decimals$}", at / factor);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{prefix}")
}

/// Returns the label of a mark on a logarithmic axis.
fn power(at: f64) -> String {
    if (0.999e-3..1e15).contains(&at) {
        return units::prefixed(at);
    }
    let exponent = (at.log10() + 1e-9).floor();
    let raised = |digit: char| match digit.to_digit(10) {
        Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
        None => '⁻',
    };
    let digits: String = exponent.to_string().chars().map(raised).collect();
    match (at / 10f64.powf(exponent)).round() {
        1.0 => format!("10{digits}"),
        times => format!("{times}·10{digits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scale: Scale, expected: &[&str]) {
        let labels: Vec<&str> = scale.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, expected, "{scale:?}");
    }

    fn extent(low: f64, high: f64) -> Extent {
        Extent { low, high, whole: low.fract() == 0.0 && high.fract() == 0.0, binary: false }
    }

    #[test]
    fn ticks_of_linear_axes() {
        check(Scale::up(extent(120.0, 940.0), false, 6), &["0", "200", "400", "600", "800", "1k"]);
        check(Scale::up(extent(0.0, 2200.0), false, 6), &["0", "500", "1k", "1.5k", "2k", "2.5k"]);
        check(Scale::up(extent(-3.0, 5.0), false, 5), &["-4", "-2", "0", "2", "4", "6"]);
        check(Scale::up(extent(0.0, 0.0), false, 4), &["0", "0.5", "1"]);
        check(Scale::across(extent(1.0, 4.0), false, 12), &["0", "1", "2", "3", "4"]);
        check(Scale::across(extent(1999.0, 2011.0), false, 4), &["2,000", "2,005", "2,010"]);
    }

    #[test]
    fn ticks_of_logarithmic_axes() {
        check(Scale::across(extent(3.0, 300.0), true, 8), &["3", "10", "30", "100", "300"]);
        check(Scale::across(extent(10.0, 300_000.0), true, 8), &["10", "100", "1k", "10k", "100k"]);
        check(Scale::across(extent(1.0, 50.0), true, 8), &["1", "2", "5", "10", "20", "50"]);
        check(Scale::up(extent(0.0004, 0.9), true, 8), &["0.001", "0.01", "0.1", "1"]);
        check(Scale::up(extent(2e-6, 9e-3), true, 8), &["10⁻⁶", "10⁻⁵", "10⁻⁴", "0.001", "0.01"]);
        check(Scale::across(extent(1e-90, 1e90), true, 4), &["10⁻⁹⁷", "10⁻⁴⁸", "10", "10⁵⁰"]);
        check(Scale::across(extent(200.0, 900.0), true, 8), &["200", "300", "400", "500", "600", "700", "800", "900"]);
        check(Scale::bars(extent(100.0, 2000.0), true, 8), &["10", "30", "100", "300", "1k", "3k"]);
        let powers = Extent::of([4.0, 16.0, 64.0, 8192.0].into_iter()).expect("numbers");
        check(Scale::across(powers, true, 6), &["4", "16", "64", "256", "1,024", "4,096"]);
        check(Scale::across(extent(70.0, 70.0), true, 8), &["40", "50", "60", "70", "80", "90", "100"]);
    }

    #[test]
    fn values_that_no_axis_can_show_are_ignored() {
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300];
        assert_eq!(Extent::of(values.into_iter()), None);
        assert_eq!(
            Extent::of([f64::NAN, 2.0, 1.5].into_iter()),
            Some(Extent { low: 1.5, high: 2.0, whole: false, binary: false })
        );
    }

    proptest::proptest! {
        #[test]
        fn any_range_has_an_axis(a in proptest::num::f64::ANY, b in proptest::num::f64::ANY, limit in 0usize..20) {
            if let Some(extent) = Extent::of([a, b].into_iter()) {
                for logarithmic in [false, true] {
                    for scale in [Scale::across(extent, logarithmic, limit), Scale::up(extent, logarithmic, limit)] {
                        assert!(scale.low < scale.high, "{scale:?}");
                        assert!(scale.ticks.len() <= limit + 8, "{scale:?}");
                        for value in [a, b, 0.0, f64::NAN] {
                            assert!((0.0..=1.0).contains(&scale.place(value)), "{value} on {scale:?}");
                        }
                    }
                }
            }
        }
    }
}

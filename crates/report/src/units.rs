//! Formats numbers for people: three significant digits, with a unit.
//!
//! Every table and figure uses these functions, so that equal values look the same everywhere. A value that is not a
//! number is shown as [`NOTHING`].

/// Shown if there is no number.
pub const NOTHING: &str = "–";

/// Formats a time in seconds: `8.4 µs`, `1.25 ms`, `12.3 s`, `4 min 10 s`, `2 h 5 min`, `1.5 days`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value < 0.0 {
        return format!("-{}", seconds(-value));
    }
    if value == 0.0 {
        return "0 s".to_owned();
    }
    for (factor, unit) in [(1e9, "ns"), (1e6, "µs"), (1e3, "ms")] {
        if rounded(value * factor) < 1000.0 {
            return format!("{} {unit}", number(value * factor));
        }
    }
    if rounded(value) < 120.0 {
        return format!("{} s", number(value));
    }
    if value < 2.0 * 3600.0 - 0.5 {
        return two(value, 60.0, "min", 1.0, "s");
    }
    if value < 48.0 * 3600.0 {
        return two(value, 3600.0, "h", 60.0, "min");
    }
    format!("{} days", number(value / 86400.0))
}

/// Formats an amount of data in bytes: `512 B`, `1.23 GiB`.
pub fn bytes(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if rounded(value.abs()) < 1024.0 {
            return format!("{} {unit}", number(value));
        }
        value /= 1024.0;
    }
    format!("{} PiB", number(value))
}

/// Formats a data rate in bytes per second: `1.23 GiB/s`.
pub fn rate(value: f64) -> String {
    if value.is_finite() { bytes(value) + "/s" } else { NOTHING.to_owned() }
}

/// Formats a frequency per second: `12,345/s`.
pub fn per_second(value: f64) -> String {
    if value.is_finite() { number(value) + "/s" } else { NOTHING.to_owned() }
}

/// Formats a count with all digits: `12,345`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Formats a ratio: `3.2x`, `1.04x`, `410x`.
pub fn ratio(value: f64) -> String {
    if value.is_finite() { number(value) + "x" } else { NOTHING.to_owned() }
}

/// Formats a fraction of 1 in percent: `3.2 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { number(share * 100.0) + " %" } else { NOTHING.to_owned() }
}

/// Formats a plain number with at least three significant digits: `0.0123`, `4.56`, `12,345`. Very small and very large
/// numbers are written as `1.2e-9`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e15).contains(&size) {
        return format!("{value:.2e}").replacen(".00e", "e", 1);
    }
    grouped(&trimmed(format!("{value:.*}", decimals(size))))
}

/// Formats a number as short as possible with a decimal prefix, for marks on axes and bars: `640`, `10k`, `1.5M`.
pub fn prefixed(value: f64) -> String {
    let size = value.abs();
    for (factor, prefix) in [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")] {
        if (rounded(size) >= factor || rounded(size / factor) >= 1.0) && rounded(size / factor) < 1000.0 {
            return number(value / factor) + prefix;
        }
    }
    number(value)
}

/// Formats `value` in whole units of `large` and `small` seconds.
fn two(value: f64, large: f64, large_unit: &str, small: f64, small_unit: &str) -> String {
    let whole = (value / small).round();
    let per = large / small;
    let (first, second) = ((whole / per).floor(), whole % per);
    if second == 0.0 { format!("{first} {large_unit}") } else { format!("{first} {large_unit} {second} {small_unit}") }
}

/// Returns the number of decimals for three significant digits.
fn decimals(size: f64) -> usize {
    match size {
        99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        _ => (2.0 - size.log10().floor()).clamp(0.0, 8.0) as usize,
    }
}

/// Rounds `size` as [`number`] will, for choosing a unit.
fn rounded(size: f64) -> f64 {
    let shift = 10f64.powi(decimals(size.max(1e-8)) as i32);
    (size * shift).round() / shift
}

/// Removes trailing zeros of a fraction.
fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Inserts a comma between groups of three digits before the decimal point.
pub(crate) fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: fn(f64) -> String, cases: &[(f64, &str)]) {
        for (value, expected) in cases {
            assert_eq!(function(*value), *expected, "{value}");
        }
    }

    #[test]
    fn times_are_formatted() {
        check(
            seconds,
            &[
                (0.0, "0 s"),
                (3.2e-10, "0.32 ns"),
                (8.4e-6, "8.4 µs"),
                (999.6e-6, "1 ms"),
                (0.00125, "1.25 ms"),
                (0.9999, "1 s"),
                (12.34, "12.3 s"),
                (119.0, "119 s"),
                (120.0, "2 min"),
                (250.4, "4 min 10 s"),
                (7199.9, "2 h"),
                (7500.0, "2 h 5 min"),
                (129_600.0, "36 h"),
                (216_000.0, "2.5 days"),
                (-0.5, "-500 ms"),
                (f64::NAN, "–"),
                (f64::INFINITY, "–"),
            ],
        );
    }

    #[test]
    fn amounts_are_formatted() {
        check(
            bytes,
            &[(0.0, "0 B"), (512.0, "512 B"), (1023.9, "1 KiB"), (1_320_702_444.0, "1.23 GiB"), (1e18, "888 PiB")],
        );
        check(rate, &[(1_320_702_444.0, "1.23 GiB/s"), (f64::NAN, "–")]);
        check(per_second, &[(12_345.4, "12,345/s")]);
        check(ratio, &[(3.2, "3.2x"), (410.4, "410x"), (1.041, "1.04x")]);
        check(percent, &[(0.032, "3.2 %"), (1.0, "100 %")]);
    }

    #[test]
    fn numbers_are_formatted() {
        check(
            number,
            &[
                (0.0123, "0.0123"),
                (0.000_456_7, "0.000457"),
                (4.561, "4.56"),
                (9.999, "10"),
                (1_234_567.8, "1,234,568"),
                (-1234.0, "-1,234"),
                (1.2e-9, "1.20e-9"),
                (5e300, "5e300"),
            ],
        );
        check(
            prefixed,
            &[
                (0.0, "0"),
                (640.0, "640"),
                (999.6, "1k"),
                (1000.0, "1k"),
                (10_000.0, "10k"),
                (1_500_000.0, "1.5M"),
                (999_999.0, "1M"),
                (-2500.0, "-2.5k"),
            ],
        );
        assert_eq!(count(0), "0");
        assert_eq!(count(12_345), "12,345");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }
}

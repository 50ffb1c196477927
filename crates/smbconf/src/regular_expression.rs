//! POSIX basic regular expressions, as compiled and matched by the C library.
//!
//! Samba's `shadow:snapprefix` is one. The languages of other implementations differ in what has to be escaped.

use std::ffi::CString;
use std::fmt;
use std::mem::MaybeUninit;

use server::policy::snapshots::Pattern;

/// A compiled basic regular expression.
pub(super) struct RegularExpression {
    text: CString,
    /// At a fixed address, because the C library does not say that it may be moved.
    compiled: Box<libc::regex_t>,
}

// SAFETY: POSIX requires regexec to be thread-safe. The value is changed only when it is created and dropped.
unsafe impl Send for RegularExpression {}
// SAFETY: as above.
unsafe impl Sync for RegularExpression {}

impl RegularExpression {
    /// Compiles `text`.
    ///
    /// # Errors
    /// The description of the fault by the C library.
    pub(super) fn new(text: &str) -> Result<RegularExpression, String> {
        let text = CString::new(text).map_err(|_| "the text contains a NUL byte".to_owned())?;
        let mut compiled = Box::<libc::regex_t>::new_uninit();
        // SAFETY: regcomp initializes the value at the pointer if it returns 0, and reads a C string.
        let code = unsafe { libc::regcomp(compiled.as_mut_ptr(), text.as_ptr(), libc::REG_NOSUB) };
        if code != 0 {
            return Err(describe(code, &compiled));
        }
        // SAFETY: regcomp has initialized it.
        Ok(RegularExpression { text, compiled: unsafe { compiled.assume_init() } })
    }
}

/// Returns the text for a code of regcomp.
fn describe(code: libc::c_int, compiled: &MaybeUninit<libc::regex_t>) -> String {
    let mut text = [0_u8; 128];
    // SAFETY: regerror writes at most the given number of bytes, with a NUL at the end, and accepts the value that
    // regcomp was given.
    unsafe { libc::regerror(code, compiled.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

impl fmt::Debug for RegularExpression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(formatter)
    }
}

impl Pattern for RegularExpression {
    fn matches(&self, text: &[u8]) -> bool {
        let Ok(text) = CString::new(text) else { return false };
        // SAFETY: the expression is compiled, the text is a C string, and no positions are requested.
        unsafe { libc::regexec(&*self.compiled, text.as_ptr(), 0, std::ptr::null_mut(), 0) == 0 }
    }
}

impl Drop for RegularExpression {
    fn drop(&mut self) {
        // SAFETY: the expression was compiled and is freed once.
        unsafe { libc::regfree(&mut *self.compiled) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, matching: &[&str], others: &[&str]) {
        let compiled = RegularExpression::new(expression).expect("a valid expression");
        for text in matching {
            assert!(compiled.matches(text.as_bytes()), "{expression} {text}");
        }
        for text in others {
            assert!(!compiled.matches(text.as_bytes()), "{expression} {text}");
        }
    }

    #[test]
    fn expressions_of_guides_are_basic_ones() {
        check(
            r"^zfs-auto-snap_\(frequent\)\{0,1\}\(hourly\)\{0,1\}$",
            &["zfs-auto-snap_hourly", "zfs-auto-snap_frequent", "zfs-auto-snap_"],
            &["zfs-auto-snap_daily", "my-zfs-auto-snap_hourly", ""],
        );
        check(r"^[A-Za-z0-9_]\{0,\}$", &["", "a_1"], &["a-1"]);
        check("^s[A-Za-z0-9]*p1$", &["sp1", "s2p1"], &["s-p1"]);
        check("auto", &["auto", "my auto 1"], &["aut"]);
        check("^a{2}$", &["a{2}"], &["aa"]);
        check("", &["", "x"], &[]);
    }

    #[test]
    fn a_text_with_a_nul_byte_does_not_match() {
        assert!(!RegularExpression::new("a").expect("a valid expression").matches(b"a\0"));
    }

    #[test]
    fn faults_are_described() {
        for text in [r"\(", "[", r"a\{2,1\}", "a\0"] {
            let fault = RegularExpression::new(text).expect_err("it is not valid");
            assert!(fault.len() > 5, "{text}: {fault}");
        }
    }

    #[test]
    fn threads_share_an_expression() {
        let compiled = RegularExpression::new("^auto[0-9]*$").expect("a valid expression");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let compiled = &compiled;
                scope.spawn(move || {
                    for number in 0..1_000 {
                        assert!(compiled.matches(format!("auto{thread}{number}").as_bytes()));
                        assert!(!compiled.matches(format!("auto{thread}x{number}").as_bytes()));
                    }
                });
            }
        });
    }
}

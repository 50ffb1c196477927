//! The privileges of the process's threads, as reported by the kernel.

/// Returns the name and id of each thread outside the sandbox, which has a capability that is not in `allowed` or does
/// not have the filter.
pub(super) fn astray(allowed: u64) -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return vec!["unknown because /proc is missing".to_owned()];
    };
    let names = tasks.flatten().filter_map(|task| {
        // A thread that has ended meanwhile has no status.
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let name = field(&status, "Name:").unwrap_or("?");
        (!is_inside(&status, allowed)).then(|| format!("{name} ({})", task.file_name().to_string_lossy()))
    });
    names.collect()
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn is_inside(status: &str, allowed: u64) -> bool {
    let permitted = field(status, "CapPrm:").and_then(|text| u64::from_str_radix(text, 16).ok());
    // Kernels without seccomp do not have this line, and then there is no filter to check.
    let filtered = field(status, "Seccomp:").is_none_or(|mode| mode == "2");
    permitted.is_none_or(|permitted| permitted & !allowed == 0) && filtered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_with_more_privileges_or_without_the_filter_are_found() {
        let status = |permitted: &str, mode: &str| format!("Name:\tx\nCapPrm:\t{permitted}\nSeccomp:\t{mode}\n");
        assert!(is_inside(&status("00000000000000c1", "2"), 0xcb));
        assert!(!is_inside(&status("00000000002000c1", "2"), 0xcb));
        assert!(!is_inside(&status("00000000000000c1", "0"), 0xcb));
        assert!(!astray(0).is_empty(), "the test has no filter");
    }
}

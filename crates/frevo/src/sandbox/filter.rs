//! The system call filter, in the form that the kernel's seccomp accepts.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::calls::{DENIED, DENIED_HERE, FAMILIES, LAST, MADE, NAMESPACES, TYPING};

/// Installs the filter on all threads of the process, and sets `no_new_privs`. Threads and processes created later
/// inherit both.
pub(super) fn install() -> Result<()> {
    seccompiler::apply_filter_all_threads(&program()?).context("the kernel does not accept the filter")
}

fn program() -> Result<BpfProgram> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Err(anyhow!("there is no filter for {}", std::env::consts::ARCH));
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).context("unsupported architecture")?;
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules()?, SeccompAction::Allow, denied, arch)?;
    let mut program = unsupported();
    // A system call of another architecture ends the process, because a program for this one makes none.
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Returns the program for calls that fail with ENOSYS, after which libraries use another call. These are `clone3`,
/// because a filter cannot see its flags; calls that are newer than the list; and calls of the x32 ABI, whose numbers
/// are larger than all others.
fn unsupported() -> BpfProgram {
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let number_of_call = 0;
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, number_of_call),
        instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 1, 0, LAST as u32),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_clone3 as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ]
}

/// Returns the denied calls: those without a rule always, the others if one of their rules matches.
fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().chain(DENIED_HERE).map(|call| (*call, Vec::new())).collect();
    let namespace = |flag: &libc::c_int| {
        let flag = u64::from(*flag as u32);
        rule(&[(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)])
    };
    rules.insert(libc::SYS_clone, NAMESPACES.iter().map(namespace).collect::<Result<_>>()?);
    let other_than = |family: &libc::c_int| (0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *family as u64);
    rules.insert(libc::SYS_socket, vec![rule(&FAMILIES.iter().map(other_than).collect::<Vec<_>>())?]);
    let typing = |request: &u64| rule(&[(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *request)]);
    rules.insert(libc::SYS_ioctl, TYPING.iter().map(typing).collect::<Result<_>>()?);
    let types = (0..=0xf).map(|kind| kind << 12).filter(|kind| !MADE.contains(kind));
    let of_type = |kind: libc::mode_t| {
        let compares = SeccompCmpOp::MaskedEq(libc::S_IFMT.into());
        rule(&[(2, SeccompCmpArgLen::Dword, compares, kind.into())])
    };
    rules.insert(libc::SYS_mknodat, types.map(of_type).collect::<Result<_>>()?);
    Ok(rules)
}

/// Builds a rule that matches if all `conditions` on arguments hold.
fn rule(conditions: &[(u8, SeccompCmpArgLen, SeccompCmpOp, u64)]) -> Result<SeccompRule> {
    let conditions = conditions.iter().cloned().map(|(argument, length, comparison, value)| {
        SeccompCondition::new(argument, length, comparison, value).map_err(anyhow::Error::from)
    });
    Ok(SeccompRule::new(conditions.collect::<Result<_>>()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_within_the_kernel_limits() {
        let program = program().expect("this architecture has a filter");
        // BPF_MAXINSNS.
        assert!(program.len() < 4096, "{}", program.len());
        let calls = rules().expect("rules");
        assert!(calls.keys().all(|call| (0..=LAST).contains(call)), "all system calls are within the range");
        assert_eq!(calls.len(), DENIED.len() + DENIED_HERE.len() + 4, "no system call is listed twice");
    }
}

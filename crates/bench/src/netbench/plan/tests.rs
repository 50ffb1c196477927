//! Tests that lines are translated to the right requests, and that no request is lost or added.

use proto::fscc::{FileAttributes, FileInformationClass as File, FsInformationClass as Fs};

use super::compile::EPOCH;
use super::*;
use crate::netbench::load::Load;

/// Formats each step of a load as one text: line, slot, messages, expected result.
fn steps(text: &str) -> Vec<String> {
    let plan = Plan::new(&Load::parse("t", text).unwrap()).unwrap();
    plan.steps.iter().map(|step| show(&plan, step)).collect()
}

fn show(plan: &Plan, step: &Step) -> String {
    let Action::Chain(chain) = &step.action else { return format!("{} {:?}", step.line, step.action) };
    let text = |id: &TextId| plan.text(*id).to_owned();
    let on = chain.slot.map_or(String::new(), |slot| format!("{}:", slot.0));
    let keep = chain.keep.map_or(String::new(), |slot| format!(">{}", slot.0));
    let messages: Vec<String> = plan
        .messages(chain)
        .iter()
        .map(|message| match message {
            Message::Create { path, access, disposition, options } => {
                let path = path.as_ref().map_or("ROOT".to_owned(), text);
                format!("create {path} {:x} {disposition:?} {:x}", access.0, options.0)
            }
            Message::QueryDirectory { class, flags, pattern } => {
                format!("list {} {class:?} {:x}", text(pattern), flags.0)
            }
            Message::Rename { to } => format!("rename {}", text(to)),
            other => format!("{other:?}"),
        })
        .collect();
    let status = if chain.expect == Status::SUCCESS { "ok" } else { chain.expect.name().unwrap_or("?") };
    let answer = if chain.answer == Answer::Any { String::new() } else { format!(" {:?}", chain.answer) };
    let last = if step.last { "" } else { " ..." };
    format!("{} {on}{}{keep} = {status}{answer}{last}", step.line, messages.join(" + "))
}

/// Checks the steps of the last line of a load.
fn check(before: &str, line: &str, expect: &[&str]) {
    let text = format!("{before}\n{line}");
    let number = text.lines().count();
    let own: Vec<String> =
        steps(&text).iter().filter_map(|step| step.strip_prefix(&format!("{number} ")).map(str::to_owned)).collect();
    assert_eq!(own, expect, "{line}");
}

const OPEN: &str = "NTCreateX \"\\clients\\client1\" 0x1 0x2 1 NT_STATUS_OK\n\
                    NTCreateX \"\\clients\\client1\\F\" 0x40 0x2 2 NT_STATUS_OK";

#[test]
fn opens_request_the_access_that_they_need() {
    let path = r#""\clients\client1\A""#;
    for (line, after, expect) in [
        (
            r#"NTCreateX "\clients\client1" 0x1 0x2 5 NT_STATUS_OK"#,
            "",
            r"create \clients\client1 100081 CREATE 1>0 = ok",
        ),
        (
            &format!("NTCreateX {path} 0x40 0x1 5 NT_STATUS_OK"),
            "ReadX 5 0 1 1 0",
            r"create \clients\client1\A 120089 OPEN 40>0 = ok",
        ),
        (
            &format!("NTCreateX {path} 0x40 0x2 5 NT_STATUS_OK"),
            "WriteX 5 0 1 1 0",
            r"create \clients\client1\A 12019f CREATE 40>0 = ok",
        ),
        (
            &format!("NTCreateX {path} 0x40 0x5 5 NT_STATUS_OK"),
            "Flush 5 0",
            r"create \clients\client1\A 12019f OVERWRITE_IF 40>0 = ok",
        ),
        (
            &format!("NTCreateX {path} 0x0 0x1 5 NT_STATUS_OK"),
            "Close 5 0",
            r"create \clients\client1\A 100080 OPEN 0>0 = ok",
        ),
        (
            &format!("NTCreateX {path} 0x0 0x1 5 NT_STATUS_OK"),
            "SET_FILE_INFORMATION 5 1004 0",
            r"create \clients\client1\A 100180 OPEN 0>0 = ok",
        ),
        (
            &format!("NTCreateX {path} 0x40 0x1 5 NT_STATUS_OBJECT_NAME_NOT_FOUND"),
            "",
            r"create \clients\client1\A 120089 OPEN 40 = STATUS_OBJECT_NAME_NOT_FOUND",
        ),
    ] {
        let all = steps(&format!("{line}\n{after}"));
        assert_eq!(all.first().map(String::as_str), Some(&*format!("1 {expect}")), "{line}");
    }
}

#[test]
fn operations_on_handles_are_one_request() {
    let lock = |flags, offset| format!("1:{:?} = ok", Message::Lock { offset, length: 1, flags });
    let exclusive = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let basic = Message::SetBasic { written: EPOCH + 3 * 10_000_000, attributes: FileAttributes::ARCHIVE.0 };
    for (line, expect) in [
        ("Close 2 NT_STATUS_OK", "1:Close = ok".to_owned()),
        ("Flush 2 NT_STATUS_OK", "1:Flush = ok".to_owned()),
        ("ReadX 2 5 10 7 NT_STATUS_OK", "1:Read { offset: 5, length: 10 } = ok Bytes(7)".to_owned()),
        ("ReadX 2 5 10 0 NT_STATUS_OK", "1:Read { offset: 5, length: 10 } = STATUS_END_OF_FILE Bytes(0)".to_owned()),
        ("WriteX 2 5 10 10 NT_STATUS_OK", "1:Write { offset: 5, length: 10 } = ok Bytes(10)".to_owned()),
        ("LockX 2 2147483538 1 NT_STATUS_OK", lock(exclusive, 2_147_483_538)),
        ("LockX 2 0 1 NT_STATUS_FILE_LOCK_CONFLICT", lock(exclusive, 0).replace("ok", "STATUS_LOCK_NOT_GRANTED")),
        ("UnlockX 2 9 1 NT_STATUS_OK", lock(LockFlags::UNLOCK, 9)),
        ("QUERY_FILE_INFORMATION 2 258 NT_STATUS_OK", "1:QueryFile { class: STANDARD, space: 24 } = ok".to_owned()),
        ("SET_FILE_INFORMATION 2 1004 NT_STATUS_OK", format!("1:{basic:?} = ok")),
        ("Sleep 1500 NT_STATUS_OK", "Pause(1.5ms)".to_owned()),
    ] {
        check(OPEN, line, &[&expect]);
    }
}

#[test]
fn operations_on_names_are_a_compound() {
    let query = format!("{:?}", Message::QueryFile { class: File::BASIC, space: 40 });
    let volume = format!("{:?}", Message::QueryFs { class: Fs::SIZE, space: 24 });
    for (line, expect) in [
        (
            r#"QUERY_PATH_INFORMATION "\clients\client1\F" 1004 NT_STATUS_OK"#,
            &[&*format!(r"create \clients\client1\F 100080 OPEN 0 + {query} + Close = ok")][..],
        ),
        (
            r#"QUERY_PATH_INFORMATION "\clients\client1\x\F" 1004 NT_STATUS_OBJECT_PATH_NOT_FOUND"#,
            &[&*format!(r"create \clients\client1\x\F 100080 OPEN 0 + {query} + Close = STATUS_OBJECT_PATH_NOT_FOUND")],
        ),
        ("QUERY_FS_INFORMATION 259 NT_STATUS_OK", &[&*format!("create ROOT 100080 OPEN 0 + {volume} + Close = ok")]),
        (
            r#"FIND_FIRST "\clients\client1\*" 260 1366 3 NT_STATUS_OK"#,
            &[r"create \clients\client1 100081 OPEN 1 + list * BOTH_DIRECTORY 1>2 = ok Entries(3) ...", "2:Close = ok"],
        ),
        (
            r#"FIND_FIRST "\clients\client1\<.J" 260 1 0 NT_STATUS_NO_SUCH_FILE"#,
            &[
                r"create \clients\client1 100081 OPEN 1 + list <.J BOTH_DIRECTORY 3>2 = STATUS_NO_SUCH_FILE ...",
                "2:Close = ok",
            ],
        ),
        (
            r#"FIND_FIRST "\clients\client1\x\*" 260 1366 0 NT_STATUS_OBJECT_PATH_NOT_FOUND"#,
            &[r"create \clients\client1\x 100081 OPEN 1 + list * BOTH_DIRECTORY 1 = STATUS_OBJECT_NAME_NOT_FOUND"],
        ),
        (
            r#"FIND_FIRST "\clients\client1\x\y\*" 260 1366 0 NT_STATUS_OBJECT_PATH_NOT_FOUND"#,
            &[r"create \clients\client1\x\y 100081 OPEN 1 + list * BOTH_DIRECTORY 1 = STATUS_OBJECT_PATH_NOT_FOUND"],
        ),
        (
            r#"Unlink "\clients\client1\F" 0x6 NT_STATUS_OK"#,
            &[r"create \clients\client1\F 110080 OPEN 1040 + Close = ok"],
        ),
        (
            r#"Rename "\clients\client1\F" "\clients\client1\G" NT_STATUS_OK"#,
            &[r"create \clients\client1\F 110080 OPEN 0 + rename \clients\client1\G + Close = ok"],
        ),
        (
            r#"Rename "\clients\client1\F" "\clients\client1\G" NT_STATUS_OBJECT_NAME_COLLISION"#,
            &[
                "create \\clients\\client1\\F 110080 OPEN 0 + rename \\clients\\client1\\G>2 = \
                 STATUS_OBJECT_NAME_COLLISION ...",
                "2:Close = ok",
            ],
        ),
        (
            r#"Rename "\clients\client1\x" "\clients\client1\G" NT_STATUS_OBJECT_NAME_NOT_FOUND"#,
            &["create \\clients\\client1\\x 110080 OPEN 0 + rename \\clients\\client1\\G + Close = \
               STATUS_OBJECT_NAME_NOT_FOUND"],
        ),
        (r#"Mkdir "\clients" NT_STATUS_OK"#, &[r"create \clients 100081 OPEN_IF 1 + Close = ok"]),
        (r#"Mkdir "\clients\client1\d" NT_STATUS_OK"#, &[r"create \clients\client1\d 100081 CREATE 1 + Close = ok"]),
        (
            r#"Rmdir "\clients\client1\d" NT_STATUS_OBJECT_NAME_NOT_FOUND"#,
            &[r"create \clients\client1\d 110080 OPEN 1 + Dispose + Close = STATUS_OBJECT_NAME_NOT_FOUND"],
        ),
        (
            r#"Rmdir "\clients\client1" NT_STATUS_DIRECTORY_NOT_EMPTY"#,
            &[r"create \clients\client1 110080 OPEN 1 + Dispose>2 = STATUS_DIRECTORY_NOT_EMPTY ...", "2:Close = ok"],
        ),
    ] {
        check(OPEN, line, expect);
    }
}

#[test]
fn a_tree_is_listed_and_deleted_as_the_load_left_it() {
    let before = r#"Mkdir "\clients\client1" 0
Mkdir "\clients\client1\Old" 0
NTCreateX "\clients\client1\Old\a" 0x40 0x2 1 0
Close 1 0
NTCreateX "\clients\client1\b" 0x40 0x2 1 0
Close 1 0
Unlink "\clients\client1\b" 6 0
Rename "\clients\client1\old" "\clients\client1\New" 0"#;
    check(
        before,
        r#"Deltree "\clients\client1" 0"#,
        &[
            r"create \clients\client1 100081 OPEN 1 + list * BOTH_DIRECTORY 1>0 = ok ...",
            "0:Close = ok ...",
            r"create \clients\client1\New 100081 OPEN 1 + list * BOTH_DIRECTORY 1>0 = ok ...",
            "0:Close = ok ...",
            r"create \clients\client1\New\a 110080 OPEN 1040 + Close = ok ...",
            r"create \clients\client1\New 110080 OPEN 1001 + Close = ok ...",
            r"create \clients\client1 110080 OPEN 1001 + Close = ok",
        ],
    );
    check(
        "# nothing exists",
        r#"Deltree "\clients\client1" 0"#,
        &[r"create \clients\client1 100081 OPEN 1 + list * BOTH_DIRECTORY 1 = STATUS_OBJECT_NAME_NOT_FOUND"],
    );
}

#[test]
fn files_left_by_the_load_are_deleted_after_it() {
    let plan = Plan::new(&Load::parse("t", OPEN).unwrap()).unwrap();
    assert_eq!(plan.steps.len(), 2);
    assert_eq!(plan.slots, 2);
    assert_eq!(plan.shared.iter().map(|id| plan.text(*id)).collect::<Vec<_>>(), [r"\clients"]);
    assert_eq!(
        plan.tail.iter().map(|step| show(&plan, step)).collect::<Vec<_>>(),
        [
            "2 0:Close = ok",
            "2 1:Close = ok",
            r"2 create \clients\client1\F 110080 OPEN 1040 + Close = ok",
            r"2 create \clients\client1 110080 OPEN 1001 + Close = ok",
        ]
    );
    let whole = format!("{OPEN}\nClose 1 0\nClose 2 0\nDeltree \"\\clients\\client1\" 0");
    assert_eq!(Plan::new(&Load::parse("t", &whole).unwrap()).unwrap().tail, []);
}

#[test]
fn slots_are_reused() {
    let plan = Plan::new(
        &Load::parse(
            "t",
            &format!(
                "{OPEN}\nClose 1 0\n\
                 FIND_FIRST \"\\*\" 260 9 0 0\nQUERY_FILE_INFORMATION 2 257 0\nNTCreateX \"\\b\" 0 3 9 0"
            ),
        )
        .unwrap(),
    );
    assert_eq!(plan.unwrap().slots, 2);
}

#[test]
fn operations_that_cannot_be_replayed_are_refused_by_line() {
    for (line, part) in [
        ("Close 7 NT_STATUS_OK", "t:3: Close: handle 7 is not open here"),
        (r#"NTCreateX "\a" 0 1 2 NT_STATUS_OK"#, "t:3: NTCreateX: handle 2 is open already"),
        (r#"QUERY_PATH_INFORMATION "\a" 3 NT_STATUS_OK"#, "information level 3 has no equivalent"),
        ("SET_FILE_INFORMATION 2 1020 NT_STATUS_OK", "set by level 1020 are not recorded"),
        (r#"Unlink "\clients\client1\*.TMP" 6 NT_STATUS_OK"#, "deletion by wildcard"),
    ] {
        let load = Load::parse("t", &format!("{OPEN}\n{line}")).unwrap();
        let error = format!("{:#}", Plan::new(&load).unwrap_err());
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_requests_match_the_load_by_type_and_bytes() {
    let text = format!(
        "{OPEN}\n{}",
        r#"WriteX 2 0 1000 1000 0
WriteX 2 1000 24 24 0
ReadX 2 1000 4096 24 0
ReadX 2 2000 4096 0 0
Flush 2 0
LockX 2 0 1 0
UnlockX 2 0 1 0
QUERY_FILE_INFORMATION 2 1005 0
SET_FILE_INFORMATION 2 1004 0
QUERY_FS_INFORMATION 259 0
QUERY_PATH_INFORMATION "\clients\client1\F" 1035 0
QUERY_PATH_INFORMATION "\clients\client1\nil" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
FIND_FIRST "\clients\client1\*" 260 1366 3 0
Close 2 0
Rename "\clients\client1\F" "\clients\client1\G" 0
Unlink "\clients\client1\G" 6 0
Mkdir "\clients\client1\d" 0
Rmdir "\clients\client1\d" 0
Sleep 1 0
Close 1 0
Deltree "\clients\client1" 0"#
    );
    let load = Load::parse("t", &text).unwrap();
    let plan = Plan::new(&load).unwrap();
    let lines = load.census();
    let of = |kinds: &[Kind]| kinds.iter().map(|kind| lines.get(kind).map_or(0, |count| count.operations)).sum::<u64>();
    let bytes = |kind: Kind| lines.get(&kind).map_or(0, |count| count.bytes);
    let sent = plan.census(&plan.steps);
    let by_name =
        [Kind::QueryPath, Kind::QueryFs, Kind::FindFirst, Kind::Unlink, Kind::Rename, Kind::Mkdir, Kind::Rmdir];
    // Deltree finds one directory, which is empty: it lists and deletes it.
    let deltree = 2 * of(&[Kind::Deltree]);
    assert_eq!(
        sent.requests,
        BTreeMap::from([
            (Command::CREATE, of(&[Kind::NtCreateX]) + of(&by_name) + deltree),
            (Command::CLOSE, of(&[Kind::Close]) + of(&by_name) + deltree),
            (Command::READ, of(&[Kind::ReadX])),
            (Command::WRITE, of(&[Kind::WriteX])),
            (Command::FLUSH, of(&[Kind::Flush])),
            (Command::LOCK, of(&[Kind::LockX, Kind::UnlockX])),
            (Command::QUERY_INFO, of(&[Kind::QueryPath, Kind::QueryFile, Kind::QueryFs])),
            (Command::QUERY_DIRECTORY, of(&[Kind::FindFirst]) + of(&[Kind::Deltree])),
            (Command::SET_INFO, of(&[Kind::SetFile, Kind::Rename, Kind::Rmdir])),
        ])
    );
    assert_eq!((sent.read, sent.written), (bytes(Kind::ReadX), bytes(Kind::WriteX)));
    assert_eq!((sent.read, sent.written), (24, 1024));
    assert_eq!(plan.steps.iter().filter(|step| step.last).count(), load.lines.len());
    assert_eq!(plan.tail, []);
}

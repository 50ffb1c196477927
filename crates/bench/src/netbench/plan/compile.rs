//! Translates the lines of a load to the steps of a plan.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use proto::dtyp::AccessMask;
use proto::fscc::{FileAttributes, FileInformationClass};
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::smb2::lock::LockFlags;
use proto::smb2::query_directory::QueryDirectoryFlags;
use proto::status::Status;

use super::access::{DELETE, LIST, LOOK, kind_of, open, uses, wanted};
use super::names::is_own;
use super::tree::{Node, Tree, parent};
use super::{Action, Answer, Chain, Message, Plan, Slot, Step, levels};
use crate::netbench::kind::Kind;
use crate::netbench::load::{Handle, Line, Load, Operation, TextId};

/// 2002-01-01T00:00:00Z, the base of the times that are set.
pub(super) const EPOCH: u64 = 126_543_168_000_000_000;

impl Plan {
    /// Translates a load to requests. Errors name the line that cannot be replayed.
    pub fn new(load: &Load) -> Result<Plan> {
        let mut compiler = Compiler::new(load);
        for (index, line) in load.lines.iter().enumerate() {
            compiler.line = line.number;
            compiler.kind = line.operation.kind();
            compiler
                .compile(index, line)
                .with_context(|| format!("{}:{}: {}", load.name, line.number, compiler.kind.name()))?;
            if let Some(step) = compiler.plan.steps.last_mut() {
                step.last = true;
            }
        }
        compiler.finish();
        Ok(compiler.plan)
    }
}

struct Compiler {
    plan: Plan,
    /// The current line.
    line: u32,
    kind: Kind,
    tree: Tree,
    open: HashMap<Handle, Slot>,
    /// Free slots, the smallest last.
    free: Vec<Slot>,
    ids: HashMap<String, TextId>,
    /// The rights that each line's handle needs until it is closed, by the index of its `NTCreateX`.
    uses: HashMap<usize, AccessMask>,
}

impl Compiler {
    fn new(load: &Load) -> Compiler {
        let ids = (0..).map(TextId).zip(&load.texts).map(|(id, text)| (text.clone(), id)).collect();
        let mut compiler = Compiler {
            plan: Plan { texts: load.texts.clone(), ..Plan::default() },
            line: 0,
            kind: Kind::Sleep,
            tree: Tree::default(),
            open: HashMap::new(),
            free: Vec::new(),
            ids,
            uses: uses(load),
        };
        compiler.share(load);
        compiler
    }

    /// Finds the directories that all clients share: the parents of the clients' own directories.
    fn share(&mut self, load: &Load) {
        let mut shared: Vec<String> = load
            .texts
            .iter()
            .filter(|text| text.starts_with('\\') && is_own(text))
            .flat_map(|text| {
                std::iter::successors(Some(parent(text)), |path| Some(parent(path))).take_while(|path| !path.is_empty())
            })
            .filter(|path| !is_own(path))
            .map(str::to_owned)
            .collect();
        shared.sort();
        shared.dedup();
        for path in shared {
            let id = self.text(&path);
            self.tree.add(&path, Node { path: id, directory: true });
            self.plan.shared.push(id);
        }
    }

    fn text(&mut self, text: &str) -> TextId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = TextId(self.plan.texts.len() as u32);
        self.plan.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    fn path(&self, id: TextId) -> String {
        self.plan.text(id).to_owned()
    }

    fn slot(&self, handle: Handle) -> Result<Slot> {
        let slot = self.open.get(&handle).copied();
        slot.with_context(|| format!("handle {} is not open here: add an NTCreateX that opens it", handle.0))
    }

    fn take_slot(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            self.plan.slots += 1;
            Slot(self.plan.slots - 1)
        })
    }

    /// Adds a step that sends these messages.
    fn send(&mut self, chain: Chain, messages: &[Message]) {
        let first = self.plan.messages.len() as u32;
        self.plan.messages.extend_from_slice(messages);
        let chain = Chain { first, length: messages.len() as u32, ..chain };
        self.plan.steps.push(Step { line: self.line, kind: self.kind, last: false, action: Action::Chain(chain) });
    }

    fn compile(&mut self, index: usize, line: &Line) -> Result<()> {
        let status = line.status;
        match line.operation {
            Operation::NtCreateX { path, options, disposition, handle } => {
                let access = self.uses.get(&index).copied().unwrap_or_default();
                self.create(path, options, disposition, access, (handle, status))?;
            }
            Operation::Close { handle } => {
                let slot = self.slot(handle)?;
                self.send(Chain::on(slot, status), &[Message::Close]);
                self.open.remove(&handle);
                self.free.push(slot);
            }
            Operation::ReadX { handle, offset, length, answered } => {
                let slot = self.slot(handle)?;
                let nothing = status == Status::SUCCESS && answered == 0 && length > 0;
                let expect = if nothing { Status::END_OF_FILE } else { status };
                let answer = Answer::Bytes(answered);
                self.send(Chain { answer, ..Chain::on(slot, expect) }, &[Message::Read { offset, length }]);
            }
            Operation::WriteX { handle, offset, length, answered } => {
                let slot = self.slot(handle)?;
                let answer = Answer::Bytes(answered);
                self.send(Chain { answer, ..Chain::on(slot, status) }, &[Message::Write { offset, length }]);
            }
            Operation::LockX { handle, offset, length } => {
                let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
                let conflict = status == Status::FILE_LOCK_CONFLICT;
                let expect = if conflict { Status::LOCK_NOT_GRANTED } else { status };
                self.send(Chain::on(self.slot(handle)?, expect), &[Message::Lock { offset, length, flags }]);
            }
            Operation::UnlockX { handle, offset, length } => {
                let flags = LockFlags::UNLOCK;
                self.send(Chain::on(self.slot(handle)?, status), &[Message::Lock { offset, length, flags }]);
            }
            Operation::Flush { handle } => {
                self.send(Chain::on(self.slot(handle)?, status), &[Message::Flush]);
            }
            Operation::Rename { from, to } => self.rename(from, to, status),
            Operation::Unlink { path, .. } => {
                if self.path(path).contains(['*', '?', '<', '>']) {
                    bail!("SMB 2 has no deletion by wildcard: list the files one by one");
                }
                self.delete(path, CreateOptions::NON_DIRECTORY_FILE, status);
            }
            Operation::Mkdir { path } => self.make_directory(path, status),
            Operation::Rmdir { path } => self.remove_directory(path, status),
            Operation::Deltree { path } => self.delete_tree(path),
            Operation::QueryPath { path, level } => {
                let (class, space) = levels::file(level).with_context(|| unknown(level))?;
                let create = open(Some(path), LOOK, CreateOptions::NONE);
                self.send(Chain::opening(status), &[create, Message::QueryFile { class, space }, Message::Close]);
            }
            Operation::QueryFile { handle, level } => {
                let (class, space) = levels::file(level).with_context(|| unknown(level))?;
                self.send(Chain::on(self.slot(handle)?, status), &[Message::QueryFile { class, space }]);
            }
            Operation::QueryFs { level } => {
                let (class, space) = levels::file_system(level).with_context(|| unknown(level))?;
                let create = open(None, LOOK, CreateOptions::NONE);
                self.send(Chain::opening(status), &[create, Message::QueryFs { class, space }, Message::Close]);
            }
            Operation::SetFile { handle, level } => {
                if !levels::sets_basic(level) {
                    bail!(
                        "the values set by level {level} are not recorded: use level 257 or 1004, times and attributes"
                    );
                }
                let written = EPOCH + u64::from(self.line) * 10_000_000;
                let set = Message::SetBasic { written, attributes: FileAttributes::ARCHIVE.0 };
                self.send(Chain::on(self.slot(handle)?, status), &[set]);
            }
            Operation::FindFirst { pattern, level, most, entries } => {
                let class = levels::directory(level).with_context(|| unknown(level))?;
                self.find(pattern, class, (most, entries), status);
            }
            Operation::Sleep { microseconds } => {
                let action = Action::Pause(Duration::from_micros(microseconds));
                self.plan.steps.push(Step { line: self.line, kind: self.kind, last: false, action });
            }
        }
        Ok(())
    }

    fn create(
        &mut self,
        path: TextId,
        options: CreateOptions,
        disposition: CreateDisposition,
        uses: AccessMask,
        (handle, status): (Handle, Status),
    ) -> Result<()> {
        let directory = options.contains(CreateOptions::DIRECTORY_FILE);
        let access = wanted(options, uses);
        let create = Message::Create { path: Some(path), access, disposition, options };
        if status.is_error() {
            self.send(Chain::opening(status), &[create]);
            return Ok(());
        }
        if self.open.contains_key(&handle) {
            bail!("handle {} is open already: add a Close before this line", handle.0);
        }
        let slot = self.take_slot();
        self.send(Chain { keep: Some(slot), ..Chain::opening(status) }, &[create]);
        self.open.insert(handle, slot);
        let text = self.path(path);
        self.tree.add(&text, Node { path, directory });
        Ok(())
    }

    fn rename(&mut self, from: TextId, to: TextId, status: Status) {
        let old = self.path(from);
        let messages = [open(Some(from), DELETE, CreateOptions::NONE), Message::Rename { to }, Message::Close];
        self.close_apart_if_refused(&messages, self.tree.has(&old), status);
        if status.is_error() {
            return;
        }
        let new = self.path(to);
        for (path, node) in self.tree.below(&old) {
            self.tree.remove(&path);
            let name = format!("{new}{}", self.path(node.path).get(old.len()..).unwrap_or_default());
            let node = Node { path: self.text(&name), ..node };
            self.tree.add(&name, node);
        }
    }

    /// Adds a chain that ends with CLOSE. The CLOSE is separate if the file exists and the request before it is
    /// expected to fail.
    fn close_apart_if_refused(&mut self, messages: &[Message], there: bool, status: Status) {
        let Some((Message::Close, before)) = messages.split_last() else { return };
        if status.is_error() && there {
            self.send_then_close(Chain::opening(status), before);
        } else {
            self.send(Chain::opening(status), messages);
        }
    }

    /// Adds a chain that opens, and a separate CLOSE.
    fn send_then_close(&mut self, chain: Chain, messages: &[Message]) {
        let slot = self.take_slot();
        self.send(Chain { keep: Some(slot), ..chain }, messages);
        self.send(Chain::on(slot, Status::SUCCESS), &[Message::Close]);
        self.free.push(slot);
    }

    fn delete(&mut self, path: TextId, options: CreateOptions, status: Status) {
        let create = open(Some(path), DELETE, options | CreateOptions::DELETE_ON_CLOSE);
        self.send(Chain::opening(status), &[create, Message::Close]);
        if !status.is_error() {
            let text = self.path(path);
            self.tree.remove(&text);
        }
    }

    fn make_directory(&mut self, path: TextId, status: Status) {
        // Only one of the clients can create a shared directory.
        let shared = self.plan.shared.contains(&path);
        let disposition = if shared { CreateDisposition::OPEN_IF } else { CreateDisposition::CREATE };
        let options = CreateOptions::DIRECTORY_FILE;
        let create = Message::Create { path: Some(path), access: LIST, disposition, options };
        self.send(Chain::opening(status), &[create, Message::Close]);
        if !status.is_error() {
            let text = self.path(path);
            self.tree.add(&text, Node { path, directory: true });
        }
    }

    fn remove_directory(&mut self, path: TextId, status: Status) {
        let text = self.path(path);
        let create = open(Some(path), DELETE, CreateOptions::DIRECTORY_FILE);
        self.close_apart_if_refused(&[create, Message::Dispose, Message::Close], self.tree.has(&text), status);
        if !status.is_error() {
            self.tree.remove(&text);
        }
    }

    fn list(&mut self, directory: Option<TextId>, query: Message, chain: Chain) {
        let create = open(directory, LIST, CreateOptions::DIRECTORY_FILE);
        if directory.is_none_or(|path| self.tree.has(self.plan.text(path))) {
            self.send_then_close(chain, &[create, query]);
        } else {
            self.send(chain, &[create, query]);
        }
    }

    fn find(&mut self, pattern: TextId, class: FileInformationClass, (most, entries): (u32, u32), status: Status) {
        let text = self.path(pattern);
        let directory = parent(&text);
        let pattern = self.text(text.get(directory.len() + 1..).unwrap_or_default());
        let one = if most == 1 { QueryDirectoryFlags::RETURN_SINGLE_ENTRY } else { QueryDirectoryFlags::NONE };
        let flags = QueryDirectoryFlags::RESTART_SCANS | one;
        // The CREATE looks up the directory like any name, but the recorded FIND_FIRST treated all of it as the path.
        let name_only = status == Status::OBJECT_PATH_NOT_FOUND && self.tree.has(parent(directory));
        let expect = if name_only { Status::OBJECT_NAME_NOT_FOUND } else { status };
        let id = (!directory.is_empty()).then(|| self.text(directory));
        let answer = if expect == Status::SUCCESS { Answer::Entries(entries) } else { Answer::Any };
        self.list(id, Message::QueryDirectory { class, flags, pattern }, Chain { answer, ..Chain::opening(expect) });
    }

    fn delete_tree(&mut self, path: TextId) {
        let text = self.path(path);
        let nodes = self.tree.below(&text);
        let directories: Vec<TextId> =
            nodes.iter().filter(|(_, node)| node.directory).map(|(_, node)| node.path).collect();
        let query = Message::QueryDirectory {
            class: FileInformationClass::BOTH_DIRECTORY,
            flags: QueryDirectoryFlags::RESTART_SCANS,
            pattern: self.text("*"),
        };
        if nodes.is_empty() {
            let missing = if self.tree.has(parent(&text)) {
                Status::OBJECT_NAME_NOT_FOUND
            } else {
                Status::OBJECT_PATH_NOT_FOUND
            };
            self.list(Some(path), query, Chain::opening(missing));
        }
        for directory in directories {
            self.list(Some(directory), query, Chain::opening(Status::SUCCESS));
        }
        for (_, node) in nodes.into_iter().rev() {
            self.delete(node.path, kind_of(node), Status::SUCCESS);
        }
    }

    /// Closes and deletes what remains after the last line.
    fn finish(&mut self) {
        let steps = std::mem::take(&mut self.plan.steps);
        self.kind = Kind::Close;
        let mut open: Vec<Slot> = self.open.drain().map(|(_, slot)| slot).collect();
        open.sort();
        for slot in open {
            self.send(Chain::on(slot, Status::SUCCESS), &[Message::Close]);
        }
        self.kind = Kind::Deltree;
        for node in self.tree.all().into_iter().rev() {
            if !self.plan.shared.contains(&node.path) {
                self.delete(node.path, kind_of(node), Status::SUCCESS);
            }
        }
        self.plan.tail = std::mem::replace(&mut self.plan.steps, steps);
        for step in &mut self.plan.tail {
            step.last = true;
        }
    }
}

fn unknown(level: u16) -> String {
    format!("information level {level} has no equivalent in SMB 2: remove the line")
}

"""Random Windows ACLs on many files.

They contain allow and deny ACEs, inheritance flags, generic rights, and well-known and unknown SIDs. Some are
protected, and some have no ACEs. FILE is a list of paths. Arguments:

`make SHARE FILE` creates the paths. Those that end in / become directories.
`set SHARE SEED FILE SIDS...` stores an ACL on each path and prints whether the server returns it unchanged. The same
seed results in the same ACLs.
`show SHARE FILE` prints the ACL of each path.
"""

import random
import struct
import sys

from connection import connect, disconnect
from security import ALL, DACL, GROUP, OWNER, PRESENT, PROTECTED, SECURITY, SELF_RELATIVE, ask, opened, send, sid, taken_apart
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.open import CreateDisposition, SMB2SetInfoRequest

WRITE_DAC, WRITE_OWNER = 0x40000, 0x80000
INHERITED_DACL, ASK_FOR_INHERITED = 0x400, 0x100
KNOWN = [sid(1, 0), sid(3, 0), sid(3, 1), sid(3, 4), sid(5, 2), sid(5, 4), sid(5, 7), sid(5, 10), sid(5, 11), sid(5, 18)]
KNOWN += [sid(5, 32, 544), sid(5, 32, 545), sid(5, 32, 546), sid(5, 32, 551)]
UNIX = [sid(22, 1, number) for number in (0, 64202, 64999)] + [sid(22, 2, number) for number in (0, 64201, 64210, 64998)]
STRANGERS = [sid(5, 21, 9, 9, 9, 1104), sid(5, 21, 9, 9, 9, 513), sid(5, 80, 1, 2, 3, 4, 5), sid(9, 7)]
MASKS = [0x1F01FF, 0x1301BF, 0x1200A9, 0x120089, 0x120116, 0x1, 0x2, 0x6, 0x20, 0x40, 0x100, 0x10000, 0x80000]
GENERIC = [0x10000000, 0x20000000, 0x40000000, 0x80000000]


def entry(dice, whom):
    kind = int(dice.random() < 0.3)
    mask = dice.choice([*MASKS, *GENERIC, dice.getrandbits(9) | dice.getrandbits(5) << 16])
    flags = dice.choice([0, 0, 0x3, 0xB, 0x1, 0x2, 0x7, 0x9, 0xA, 0xF, 0x10, 0x13, 0x1B])
    who = dice.choice(whom)
    return struct.pack("<BBHI", kind, flags, 8 + len(who), mask) + who


def descriptor(dice, people):
    """Returns a random security descriptor with owner, group and DACL."""
    whom = people * 2 + KNOWN + UNIX + STRANGERS
    count = dice.choice([0, 1, 1, 2, 3, 4, 5, 6, 8, 40])
    entries = b"".join(entry(dice, whom) for _ in range(count))
    acl = struct.pack("<BBHHH", 2, 0, 8 + len(entries), count, 0) + entries
    owner = dice.choice([*people, UNIX[1], UNIX[2], KNOWN[10], STRANGERS[0]])
    group = dice.choice([*people[:1], UNIX[4], UNIX[5], UNIX[6], KNOWN[11], STRANGERS[1]])
    control = dice.choice([0, 0, PROTECTED, INHERITED_DACL, INHERITED_DACL | ASK_FOR_INHERITED])
    at_group = 20 + len(owner)
    head = struct.pack("<BBHIIII", 1, 0, control | PRESENT | SELF_RELATIVE, 20, at_group, 0, at_group + len(group))
    return head + owner + group + acl


def tell(tree, path, given):
    handle = opened(tree, path, WRITE_DAC | WRITE_OWNER)
    change = SMB2SetInfoRequest()
    change["info_type"] = SECURITY
    change["additional_information"] = OWNER | GROUP | DACL
    change["file_id"] = handle.file_id
    change["buffer"] = given
    try:
        send(handle, change)
    finally:
        handle.close()


def mapped(mask):
    """Maps generic rights to rights of files ([MS-FSA] 2.1.5.1)."""
    for bit, rights in zip(GENERIC, (0x1F01FF, 0x1200A0, 0x120116, 0x120089)):
        mask = mask & ~bit | rights if mask & bit else mask
    return mask


def kept(given):
    """Returns the parts of a descriptor as the server must return them.

    SE_DACL_AUTO_INHERITED is kept only if SE_DACL_AUTO_INHERIT_REQ is set, too.
    """
    control, owner, group, entries = taken_apart(given)
    asked = INHERITED_DACL | ASK_FOR_INHERITED
    control = control & ~asked | (INHERITED_DACL if control & asked == asked else 0)
    return control, owner, group, [(kind, flags, mapped(mask), who) for kind, flags, mask, who in entries]


def told(tree, path, given):
    try:
        tell(tree, path, given)
    except SMBResponseException as error:
        return f"refused {error.status:#x}"
    found = ask(tree, path)
    return "set" if found == kept(given) else f"set to {kept(given)}, and has {found}"


def shown(tree, path):
    control, owner, group, entries = ask(tree, path)
    lines = [f"{kind} {flags:#x} {mask:#x} {who.hex()}" for kind, flags, mask, who in entries or []]
    return f"{control:#x} {owner.hex()} {group.hex()} {'none' if entries is None else lines}"


what, share, *rest = sys.argv[1:]
tree = connect(share)
if what == "set":
    seed, file, *people = rest
    people = [sid(*map(int, text.split("-")[2:])) for text in people]
for path in open(file if what == "set" else rest[0], encoding="utf-8").read().splitlines():
    name = path.rstrip("/").replace("/", "\\")
    if what == "make":
        opened(tree, name, ALL, CreateDisposition.FILE_CREATE, path.endswith("/")).close()
        continue
    if what == "set":
        print(path, told(tree, name, descriptor(random.Random(seed + path), people)))
    else:
        print(path, shown(tree, name))
disconnect(tree)

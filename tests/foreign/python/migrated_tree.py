"""A tree with Windows ACLs and streams, to compare what servers show of it.

`make SHARE COUNT SIDS...` creates COUNT files, a hundred in a directory, each with content and an ACL for some of SIDS.
Every third has a stream.
`show SHARE COUNT` prints for each file its content, its stream and its descriptor.
"""

import random
import sys

from connection import connect, disconnect
from security import ALLOW, DENY, EVERYONE, PROTECTED, READ_DATA, WRITE_DATA, ask, descriptor, opened, sid, tell
from smbprotocol.open import CreateDisposition

ALL, CHANGE, READ = 0x1F01FF, 0x1301BF, 0x1200A9
INHERITED_BY_ALL = 0x3
IN_A_DIRECTORY = 100


def names(count):
    """Returns the paths of the files, each directory before its files."""
    for number in range(count):
        if number % IN_A_DIRECTORY == 0:
            yield f"d{number // IN_A_DIRECTORY}", True
        yield f"d{number // IN_A_DIRECTORY}\\f{number}", False


def streams(name):
    return [name, f"{name}:notes"] if int(name.rsplit("f", 1)[1]) % 3 == 0 else [name]


def acl(dice, people, directory):
    flags = INHERITED_BY_ALL if directory else 0
    entries = [(ALLOW, flags, ALL, people[0])]
    for who in dice.sample(people, min(len(people), dice.choice([1, 3, 12]))):
        entries.append((dice.choice([ALLOW, ALLOW, DENY]), flags, dice.choice([CHANGE, READ, WRITE_DATA]), who))
    entries.append((ALLOW, flags, READ, EVERYONE))
    # Windows and smbcacls expect denials first.
    entries.sort(key=lambda entry: entry[0] == ALLOW)
    return descriptor(dice.choice([0, PROTECTED]), entries)


def make(tree, count, people):
    for name, directory in names(count):
        handle = opened(tree, name, ALL, CreateDisposition.FILE_CREATE, directory)
        handle.close()
        for stream in [] if directory else streams(name):
            handle = opened(tree, stream, ALL, CreateDisposition.FILE_OPEN_IF)
            handle.write(f"content of {stream}\n".encode() * 10, 0)
            handle.close()
        tell(tree, name, acl(random.Random(name), people, directory))


def shown(tree, name, directory):
    control, owner, group, entries = ask(tree, name)
    lines = [f"{kind} {flags:#x} {mask:#x} {who.hex()}" for kind, flags, mask, who in entries or []]
    text = f"{control:#x} {owner.hex()} {group.hex()} {lines}"
    for stream in [] if directory else streams(name):
        handle = opened(tree, stream, READ_DATA)
        text += f" {handle.read(0, 4096)!r}"
        handle.close()
    return text


what, share, count, *people = sys.argv[1:]
tree = connect(share)
if what == "make":
    make(tree, int(count), [sid(*map(int, text.split("-")[2:])) for text in people])
else:
    for name, directory in names(int(count)):
        print(name, shown(tree, name, directory))
disconnect(tree)

"""Two servers on one directory: a security descriptor that one of them stores is the other's, too, and keeps out whom it
should. alice has one SID on both. Arguments: the second server's port, alice's SID."""

import os
import sys

from bed import connect, disconnect
from security import (
    ALL,
    ALLOW,
    DENY,
    EVERYONE,
    PROTECTED,
    READ,
    READ_DATA,
    WRITE_DAC,
    WRITE_DATA,
    ask,
    descriptor,
    opened,
    refused,
    sid,
    taken_apart,
    tell,
)
from smbprotocol.open import CreateDisposition

INHERITED_BY_ALL = 0x3
CREATOR_OWNER = sid(3, 0)
CREW = sid(22, 2, 64210)
STRANGER = sid(5, 21, 9, 9, 9, 1104)
# Frevo stores the id where nobody said a SID; it shows the account, and Samba what is stored.
PLAIN, ALICE = sid(22, 1, 64201), sid(*map(int, sys.argv[2].split("-")[2:]))


def asked(tree, name):
    """A file's descriptor with alice called by her account."""
    called = lambda who: ALICE if who == PLAIN else who
    control, owner, group, entries = ask(tree, name)
    return control, called(owner), group, [(*entry, called(who)) for *entry, who in entries]


def both_ways(one, other, name):
    """What `one` stores is what `other` shows and heeds."""
    opened(one, name, ALL, CreateDisposition.FILE_CREATE).close()
    assert asked(other, name) == asked(one, name), f"{name}: a new file differs"
    me = asked(one, name)[1]
    entries = [(DENY, 0, WRITE_DATA, STRANGER), (ALLOW, 0, READ | WRITE_DAC, me), (ALLOW, 0, READ, CREW)]
    tell(one, name, descriptor(PROTECTED, entries))
    expected = taken_apart(descriptor(PROTECTED, entries))
    for tree in one, other:
        shown = asked(tree, name)
        assert (shown[0], shown[3]) == (expected[0], expected[3]), f"{name}: {shown}"
        assert shown[1] == me
        assert refused(tree, name, WRITE_DATA) and not refused(tree, name, READ_DATA)
    # The other one changes it again.
    tell(other, name, descriptor(0, [(ALLOW, 0, ALL, me), (ALLOW, 0, READ, EVERYONE)]))
    assert asked(one, name) == asked(other, name)
    assert not refused(one, name, WRITE_DATA) and not refused(other, name, WRITE_DATA)


def inherited(one, other, name):
    """What is made by `other` in a directory of `one` inherits."""
    opened(one, name, ALL, CreateDisposition.FILE_CREATE, directory=True).close()
    down = INHERITED_BY_ALL
    entries = [(ALLOW, down, ALL, CREATOR_OWNER), (ALLOW, 0, ALL, EVERYONE), (ALLOW, down, READ, CREW)]
    tell(one, name, descriptor(0, [(ALLOW, 0, ALL, asked(one, name)[1]), *entries]))
    for kind, directory in ("file", False), ("folder", True):
        path = rf"{name}\{kind}"
        opened(other, path, ALL, CreateDisposition.FILE_CREATE, directory).close()
        shown = asked(other, path)
        assert shown == asked(one, path), f"{path}: {shown}"
        expected = [(ALLOW, 0, ALL, shown[1])]
        expected += [(ALLOW, down | 8, ALL, CREATOR_OWNER)] if directory else []
        expected += [(ALLOW, down if directory else 0, READ, CREW)]
        assert shown[3] == taken_apart(descriptor(0, expected))[3], f"{path}: {shown}"


first = connect("acls")
os.environ["SERVER_PORT"] = sys.argv[1]
second = connect("acls")
both_ways(first, second, "from-first")
both_ways(second, first, "from-second")
inherited(first, second, "in-first")
inherited(second, first, "in-second")
disconnect(first)
disconnect(second)

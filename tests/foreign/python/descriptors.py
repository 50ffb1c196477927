"""Two servers serve one directory, and each honours the security descriptors that the other stores.

alice has the same SID on both. Arguments: the second server's port, alice's SID.
"""

import os
import sys

from connection import connect, disconnect
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
ALICE = sid(*map(int, sys.argv[2].split("-")[2:]))


def both_ways(one, other, name):
    """Checks that `other` returns and enforces the descriptor that `one` stores, and the reverse."""
    opened(one, name, ALL, CreateDisposition.FILE_CREATE).close()
    assert ask(other, name) == ask(one, name), f"{name}: a new file differs"
    assert ask(one, name)[1] == ALICE
    me = ask(one, name)[1]
    entries = [(DENY, 0, WRITE_DATA, STRANGER), (ALLOW, 0, READ | WRITE_DAC, me), (ALLOW, 0, READ, CREW)]
    tell(one, name, descriptor(PROTECTED, entries))
    expected = taken_apart(descriptor(PROTECTED, entries))
    for tree in one, other:
        shown = ask(tree, name)
        assert (shown[0], shown[3]) == (expected[0], expected[3]), f"{name}: {shown}"
        assert shown[1] == me
        assert refused(tree, name, WRITE_DATA) and not refused(tree, name, READ_DATA)
    # The other server replaces the DACL.
    tell(other, name, descriptor(0, [(ALLOW, 0, ALL, me), (ALLOW, 0, READ, EVERYONE)]))
    assert ask(one, name) == ask(other, name)
    assert not refused(one, name, WRITE_DATA) and not refused(other, name, WRITE_DATA)


def inherited(one, other, name):
    """Checks inheritance by files that `other` creates in a directory whose DACL `one` has stored."""
    opened(one, name, ALL, CreateDisposition.FILE_CREATE, directory=True).close()
    down = INHERITED_BY_ALL
    entries = [(ALLOW, down, ALL, CREATOR_OWNER), (ALLOW, 0, ALL, EVERYONE), (ALLOW, down, READ, CREW)]
    tell(one, name, descriptor(0, [(ALLOW, 0, ALL, ask(one, name)[1]), *entries]))
    for kind, directory in ("file", False), ("folder", True):
        path = rf"{name}\{kind}"
        opened(other, path, ALL, CreateDisposition.FILE_CREATE, directory).close()
        shown = ask(other, path)
        assert shown == ask(one, path), f"{path}: {shown}"
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

"""Replaces a file's DACL: full access for the owner, read access for others. Arguments: share, file, others' SIDs."""

import sys

from connection import connect, disconnect
from security import ALL, ALLOW, PROTECTED, READ, ask, descriptor, sid, taken_apart, tell

tree = connect(sys.argv[1])
name = sys.argv[2]
others = [sid(*map(int, text.split("-")[2:])) for text in sys.argv[3:]]
given = descriptor(PROTECTED, [(ALLOW, 0, ALL, ask(tree, name)[1]), *((ALLOW, 0, READ, who) for who in others)])
tell(tree, name, given)
assert ask(tree, name)[3] == taken_apart(given)[3], "another list is shown than was stored"
disconnect(tree)

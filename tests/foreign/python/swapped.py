"""Opens a path repeatedly while a local process swaps one of its components.

Arguments: path, number of opens, secret word. Prints how many opens succeeded and how many were refused.
"""

import sys

from connection import connect, create, disconnect
from smbprotocol.exceptions import SMBException

path, opens, secret = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
tree = connect()
inside = refused = 0
for _ in range(opens):
    try:
        handle = create(tree, path)
        if secret in handle.read(0, 4096):
            sys.exit(f"{path!r} led out of the share")
        handle.close()
        inside += 1
    except SMBException:
        refused += 1
print(inside, refused)
disconnect(tree)

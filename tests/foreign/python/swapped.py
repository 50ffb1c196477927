"""Opens a path repeatedly while a local process swaps one of its components.

Arguments: path, number of opens, secret word, and the module that opens: `connection` or `posix_opens`. Prints how many opens succeeded and how many were refused.
"""

import sys
from importlib import import_module

from connection import disconnect
from smbprotocol.exceptions import SMBException

path, opens, secret = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
module = import_module(sys.argv[4])
connect, create = module.connect, module.create
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

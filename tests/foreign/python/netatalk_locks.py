"""Shows what Netatalk and clients see of each other's share modes. Arguments: share, and a file of it as a local path.

This process stands for Netatalk's AFP server: it locks the bytes that Netatalk locks.
"""

import errno
import fcntl
import os
import sys

from connection import connect, disconnect
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.open import CreateDisposition, ImpersonationLevel, Open

FIRST = 2**63 - 10
READ, WRITE = 1, 2
# Opens of a resource fork have bytes 2, 3, 6 and 7, and 8 and 9 have no share mode.
BYTES = range(10)

share, path = sys.argv[1:]
tree = connect(share)
local = os.open(path, os.O_RDWR)


def opened(access, shared, disposition=CreateDisposition.FILE_OPEN):
    handle = Open(tree, os.path.basename(path))
    handle.create(ImpersonationLevel.Impersonation, access | 0x80, 0x80, shared, disposition, 0)
    return handle


def locked():
    """Returns the bytes that others have locked."""
    found = []
    for byte in BYTES:
        try:
            fcntl.lockf(local, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, FIRST + byte)
            fcntl.lockf(local, fcntl.LOCK_UN, 1, FIRST + byte)
        except OSError as error:
            assert error.errno in (errno.EAGAIN, errno.EACCES), error
            found.append(byte)
    return found


for access in (READ, WRITE, READ | WRITE):
    for shared in (7, 1, 2, 0):
        handle = opened(access, shared)
        print("access", access, "share", shared, "locks", locked())
        handle.close()
        print("closed", locked())
for byte in BYTES:
    fcntl.lockf(local, fcntl.LOCK_SH, 1, FIRST + byte)
    for access in (READ, WRITE, READ | WRITE):
        for shared in (7, 1, 2, 0):
            try:
                opened(access, shared).close()
                status = 0
            except SMBResponseException as refused:
                status = refused.status
            print("byte", byte, "access", access, "share", shared, f"{status:#x}")
    fcntl.lockf(local, fcntl.LOCK_UN, 1, FIRST + byte)
print("overwriting")
fcntl.lockf(local, fcntl.LOCK_SH, 1, FIRST + 4)
try:
    opened(READ, 7, CreateDisposition.FILE_OVERWRITE).close()
    print("overwritten")
except SMBResponseException as refused:
    print(f"{refused.status:#x}")
print("size", os.stat(path).st_size)
disconnect(tree)

"""An administrator of the share backs up and restores a tree with its security descriptors.

The administrator opens everything with backup intent ([MS-FSA] 2.1.5.1, phase 4). bob, the owner of the tree, must not
gain access from backup intent. Arguments: the share, bob's name and password.
"""

import struct
import sys

from connection import connect, disconnect
from security import (
    ALL,
    ALLOW,
    DACL,
    DENY,
    EVERYONE,
    GROUP,
    OWNER,
    PROTECTED,
    READ,
    READ_CONTROL,
    READ_DATA,
    SACL,
    SYSTEM_SECURITY,
    WRITE_DAC,
    WRITE_DATA,
    WRITE_OWNER,
    ask,
    descriptor,
    opened,
    read,
    taken_apart,
    tell,
    write,
)
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.open import CreateDisposition, CreateOptions

INTENT = CreateOptions.FILE_OPEN_FOR_BACKUP_INTENT
EVERYTHING = OWNER | GROUP | DACL | SACL
BACKUP = READ | READ_CONTROL | SYSTEM_SECURITY
RESTORE = ALL | SYSTEM_SECURITY
RIGHTS = [READ_DATA, WRITE_DATA, READ, ALL, READ_CONTROL, WRITE_DAC, WRITE_OWNER, SYSTEM_SECURITY, 0x4, 0x10000]
AUDIT, FAILED_ACCESS = 2, 0x80
SACL_PRESENT, SELF_RELATIVE = 0x10, 0x8000


def audited():
    """Returns a descriptor that contains only a SACL with an ACE that audits refused accesses."""
    ace = struct.pack("<BBHI", AUDIT, FAILED_ACCESS, 8 + len(EVERYONE), 0x10000) + EVERYONE
    acl = struct.pack("<BBHHH", 2, 0, 8 + len(ace), 1, 0) + ace
    return struct.pack("<BBHIIII", 1, 0, SACL_PRESENT | SELF_RELATIVE, 0, 0, 20, 0) + acl


def status(tree, name, access, options):
    """Returns the status of an open."""
    try:
        opened(tree, name, access, options=options).close()
    except SMBResponseException as error:
        return error.status
    return 0


def make(tree, name, directory):
    handle = opened(tree, name, ALL, CreateDisposition.FILE_CREATE, directory)
    if not directory:
        handle.write(name.encode(), 0)
    handle.close()


def all_of(tree, name, directory):
    """Returns the content of a file and its whole security descriptor. A directory's content is empty."""
    handle = opened(tree, name, BACKUP, options=INTENT, directory=directory)
    content = b"" if directory else handle.read(0, handle.end_of_file)
    found = read(handle, EVERYTHING)
    handle.close()
    return content, found


def restore(tree, name, directory, content, saved):
    handle = opened(tree, name, RESTORE, CreateDisposition.FILE_CREATE, directory, INTENT)
    if not directory:
        handle.write(content, 0)
    write(handle, EVERYTHING, saved)
    handle.close()


share = sys.argv[1]
admin, bob = connect(share), connect(share, person=sys.argv[2:4])
make(bob, "tree", True)
me = ask(bob, "tree")[1]
files = [
    # A directory precedes its contents: DACLs are set in reverse order, and the copies are created in this order.
    ("tree", True, [(ALLOW, 0, ALL, me)]),
    (r"tree\his", False, [(ALLOW, 0, READ, me)]),
    (r"tree\empty", False, []),
    (r"tree\denied", False, [(DENY, 0, ALL, EVERYONE), (ALLOW, 0, READ, me)]),
    (r"tree\closed", True, []),
    (r"tree\closed\inner", False, [(ALLOW, 0, ALL, me)]),
]
for name, directory, _ in files[1:]:
    make(bob, name, directory)
for name, _, entries in reversed(files):
    tell(bob, name, descriptor(PROTECTED, entries))
for name, directory, _ in files:
    handle = opened(admin, name, RESTORE, options=INTENT, directory=directory)
    write(handle, SACL, audited())
    handle.close()

for name, directory, _ in files:
    content, saved = all_of(admin, name, directory)
    assert directory or content == name.encode(), f"{name}: {content}"
    control, owner, *_ = taken_apart(saved)
    assert owner == me and control & SACL_PRESENT, f"{name}: not all of it"
    copy = name.replace("tree", "copy", 1)
    restore(admin, copy, directory, content, saved)
    assert all_of(admin, copy, directory) == (content, saved), f"{copy}: not as it was"

for name, directory, _ in files:
    for access in RIGHTS:
        plain, intending = status(bob, name, access, 0), status(bob, name, access, INTENT)
        assert plain == intending, f"{name}: {access:#x} is {plain:#x}, and {intending:#x} for backup"
        copied = status(bob, name.replace("tree", "copy", 1), access, INTENT)
        assert plain == copied, f"{name}: {access:#x} is {plain:#x}, and {copied:#x} of the copy"
    assert status(bob, name, SYSTEM_SECURITY, INTENT) != 0, f"{name}: bob is no administrator"
for name in r"tree\empty", r"tree\denied":
    assert status(bob, name, READ_DATA, INTENT) != 0, f"{name}: bob reads it"
    assert status(admin, name, READ_DATA, INTENT) == 0, f"{name}: the administrator does not read it"
disconnect(bob)
disconnect(admin)

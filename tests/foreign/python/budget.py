"""Runs a fixed number of operations between two pauses, so that the caller can count the server's system calls.

Arguments: the share, the kind of operation, and the number of operations (for a listing: of entries). With the further
argument `protected`, the folder gets an inheritable Windows ACL. The kinds are:

open_close        opens and closes one file
open_in_capitals  the same, by names in another case than on disk
open_each         opens and closes the files of a `make`, after a listing
make              creates the files before the first pause, and nothing else
create_write      creates files and writes 64 KiB to each
delete            deletes files
read              reads 64 KiB from an open file
write             writes 64 KiB to an open file
listing           lists the folder
list_again        lists the folder, which was listed once before the first pause
"""

import sys

from connection import DELETE, WRITE, connect, create, create_directory, disconnect, pause
from security import ALL, ALLOW, EVERYONE, READ, descriptor, sid, tell
from smbprotocol.exceptions import NoMoreFiles
from smbprotocol.file_info import FileInformationClass
from smbprotocol.open import CreateDisposition, CreateOptions, FilePipePrinterAccessMask, QueryDirectoryFlags

INHERITED_BY_ALL = 0x3
ALICE, CREW = sid(22, 1, 64201), sid(22, 2, 64210)

share, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
tree = connect(share)
folder = create_directory(tree, "budget")
if "protected" in sys.argv:
    who = [(ALICE, ALL), (CREW, READ), (EVERYONE, READ)]
    tell(tree, "budget", descriptor(0, [(ALLOW, INHERITED_BY_ALL, rights, sid) for sid, rights in who]))


def make(name):
    create(tree, name, WRITE, CreateDisposition.FILE_OVERWRITE_IF).close()


def delete(name):
    create(tree, name, DELETE, options=CreateOptions.FILE_DELETE_ON_CLOSE).close()


def list_all():
    found, flags = 0, QueryDirectoryFlags.SMB2_RESTART_SCANS
    while True:
        try:
            entries = folder.query_directory("*", FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION, flags=flags)
        except NoMoreFiles:
            return found
        found += len(entries)
        flags = 0


OPENED = {"open_close": r"budget\file", "open_in_capitals": r"BUDGET\FILE"}
if kind in OPENED:
    make(r"budget\file")
elif kind in ("delete", "listing", "list_again", "make"):
    for number in range(count):
        make(rf"budget\entry {number}")
if kind == "delete":
    make(r"budget\first")
block = bytes(65536)
READ_AND_WRITE = WRITE | FilePipePrinterAccessMask.GENERIC_READ
# Work done once per connection is not counted.
if kind in OPENED:
    create(tree, OPENED[kind]).close()
elif kind in ("list_again", "open_each"):
    list_all()
elif kind == "delete":
    delete(r"budget\first")
elif kind in ("read", "write"):
    open_file = create(tree, r"budget\file", READ_AND_WRITE, CreateDisposition.FILE_OVERWRITE_IF)
    open_file.write(block, 0)

pause("ready")
if kind in OPENED:
    for _ in range(count):
        create(tree, OPENED[kind]).close()
elif kind == "open_each":
    for number in range(count):
        create(tree, rf"budget\entry {number}").close()
elif kind == "delete":
    for number in range(count):
        delete(rf"budget\entry {number}")
elif kind == "create_write":
    for number in range(count):
        file = create(tree, rf"budget\new {number}", WRITE, CreateDisposition.FILE_CREATE)
        file.write(block, 0)
        file.close()
elif kind == "read":
    for _ in range(count):
        assert len(open_file.read(0, len(block))) == len(block)
elif kind == "write":
    for _ in range(count):
        open_file.write(block, 0)
elif kind in ("listing", "list_again"):
    assert list_all() == count + 2
pause("done")
if kind in ("read", "write"):
    open_file.close()
folder.close()
disconnect(tree)

"""A fixed number of operations between two pauses, for whoever counts the server's system calls.

Arguments: open_close, create_write or listing, and how many operations (for a listing: entries).
"""

import sys

from bed import WRITE, connect, create, create_directory, disconnect, pause
from smbprotocol.exceptions import NoMoreFiles
from smbprotocol.file_info import FileInformationClass
from smbprotocol.open import CreateDisposition, QueryDirectoryFlags

kind, count = sys.argv[1], int(sys.argv[2])
tree = connect()
folder = create_directory(tree, "budget")


def make(name):
    create(tree, name, WRITE, CreateDisposition.FILE_OVERWRITE_IF).close()


def list_all():
    found, flags = 0, QueryDirectoryFlags.SMB2_RESTART_SCANS
    while True:
        try:
            entries = folder.query_directory("*", FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION, flags=flags)
        except NoMoreFiles:
            return found
        found += len(entries)
        flags = 0


if kind == "open_close":
    make(r"budget\file")
elif kind == "listing":
    for number in range(count):
        make(rf"budget\entry {number}")
block = bytes(65536)
# What happens once per connection is not counted.
if kind == "open_close":
    create(tree, r"budget\file").close()

pause("ready")
if kind == "open_close":
    for _ in range(count):
        create(tree, r"budget\file").close()
elif kind == "create_write":
    for number in range(count):
        file = create(tree, rf"budget\new {number}", WRITE, CreateDisposition.FILE_CREATE)
        file.write(block, 0)
        file.close()
else:
    assert list_all() == count + 2
pause("done")
folder.close()
disconnect(tree)

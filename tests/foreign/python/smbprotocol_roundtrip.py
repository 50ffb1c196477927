"""smbprotocol: connect, list, write, read, delete. Arguments: dialect, and `plain`, `signed` or `encrypted`."""

import os
import sys

from connection import DELETE, READ, WRITE, connect, create, create_directory, disconnect
from smbprotocol.exceptions import ObjectNameNotFound
from smbprotocol.file_info import FileInformationClass
from smbprotocol.open import CreateDisposition, CreateOptions

dialect, protection = sys.argv[1:]
tree = connect(dialect=dialect, signed=protection == "signed", encrypted=protection == "encrypted")
assert tree.session.encrypt_data == (protection == "encrypted")

folder = create_directory(tree, "smbprotocol")
data = os.urandom(200_000)
file = create(tree, r"smbprotocol\data", READ | WRITE, CreateDisposition.FILE_OVERWRITE_IF)
for offset in range(0, len(data), 50_000):
    part = data[offset : offset + 50_000]
    assert file.write(part, offset) == len(part)
file.flush()
back = b"".join(file.read(offset, 50_000) for offset in range(0, len(data), 50_000))
assert back == data, "what was read differs"
file.close()

entries = folder.query_directory("*", FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION)
sizes = {entry["file_name"].get_value().decode("utf-16-le"): entry["end_of_file"].get_value() for entry in entries}
assert sizes.get("data") == len(data), sizes
assert "." in sizes and ".." in sizes, sizes
folder.close()

create(tree, r"smbprotocol\data", DELETE, options=CreateOptions.FILE_DELETE_ON_CLOSE).close()
try:
    create(tree, r"smbprotocol\data")
    sys.exit("a deleted file opens")
except ObjectNameNotFound:
    pass
disconnect(tree)

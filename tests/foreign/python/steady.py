"""A session with an open file continues after a pause, in which the caller sends a signal to the server."""

from connection import READ, WRITE, connect, create, disconnect, pause
from smbprotocol.open import CreateDisposition

tree = connect()
file = create(tree, "steady", READ | WRITE, CreateDisposition.FILE_OVERWRITE_IF)
file.write(b"before", 0)
pause("ready")
assert file.read(0, 6) == b"before"
file.write(b"after ", 0)
other = create(tree, "steady")
assert other.read(0, 6) == b"after "
other.close()
file.close()
disconnect(tree)

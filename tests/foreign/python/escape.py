"""Opens names that lead out of a share if the server does not prevent it.

Argument: a word that only files outside the share contain. Each name is sent unchanged, which clients that normalize
names would not do. A refusal with any status is correct, and so is a file inside the share. The server must not return
the word.
"""

import sys

from connection import READ, WRITE, connect, create, disconnect
from smbprotocol.exceptions import SMBException
from smbprotocol.open import CreateDisposition

secret = sys.argv[1].encode()
UP = [r"..\secret", r"..\..\secret", r"..\outside\secret", r"inner\..\..\outside\secret", r".\..\outside\secret"]
PASSWD = [
    "\\".join([".."] * depth + ["etc", "passwd"]) for depth in range(1, 12)
] + [r"\etc\passwd", "/etc/passwd", "../../../../../../etc/passwd", r"inner/../../../../../etc/passwd"]
LINKS = ["link", r"link_dir\secret", r"link_up\outside\secret", "passwd_link", r"chain\secret", r"link_dir\.\secret"]
STREAMS = [
    r"plain:..\..\outside\secret",
    r"plain:..\..\outside\secret:$DATA",
    r"plain::$DATA\..\..\outside\secret",
    r"plain:/../../outside/secret",
    "link:stream",
    "link::$DATA",
    r"..\outside\secret::$DATA",
    r"link_dir\secret::$DATA",
    r"..\outside:secret",
]
PIPES = [r"..\..\..\..\..\..\etc\passwd", "/etc/passwd", r"srvsvc\..\..\..\etc\passwd", r"\etc\passwd", "srvsvc:/etc/passwd"]


def attempt(tree, name):
    """Opens and reads `name`, then tries to create and write a file with `.new` appended to the name."""
    try:
        handle = create(tree, name)
        data = handle.read(0, 4096)
        handle.close()
        if secret in data or b"root:" in data:
            sys.exit(f"{name!r} reads a file outside the share")
    except (SMBException, ValueError):
        pass
    try:
        handle = create(tree, name + ".new", WRITE, CreateDisposition.FILE_OPEN_IF)
        handle.write(b"left behind", 0)
        handle.close()
    except (SMBException, ValueError):
        pass


files = connect()
for name in UP + PASSWD + LINKS + STREAMS:
    attempt(files, name)
disconnect(files)
pipes = connect("IPC$")
for name in PIPES:
    attempt(pipes, name)
disconnect(pipes)

"""Opens names that lead out of a share if the server does not prevent it.

Arguments: a word that only files outside the share contain, and the module that opens: `connection`, or `posix_opens`
for opens with the POSIX extensions. Each name is sent unchanged, which clients that normalize names would not do. A
refusal with any status is correct, and so is a file inside the share. The server must not return the word.
"""

import sys
from importlib import import_module

from connection import READ, WRITE, disconnect
from smbprotocol.exceptions import SMBException
from smbprotocol.open import CreateDisposition

secret = sys.argv[1].encode()
module = import_module(sys.argv[2])
connect, create = module.connect, module.create
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
SPECIAL = ["fifo", "fifo:stream", "socket", r"fifo\secret", "plain\0", "link\0", "\0", r"plain\..\link", "inner/../link"]
VERSION = "@GMT-2015.10.31-19.40.30"
VERSIONS = [
    rf"{VERSION}\{name}"
    for name in ["out", r"folder\secret", r"up\outside\secret", r"..\..\..\outside\secret", r"..\secret", "out:stream"]
] + [rf"..\{VERSION}\out", rf"folder\{VERSION}\secret", rf".snapshots\{VERSION}\out"]
PIPES = [r"..\..\..\..\..\..\etc\passwd", "/etc/passwd", r"srvsvc\..\..\..\etc\passwd", r"\etc\passwd", "srvsvc:/etc/passwd"]


def attempt(tree, name):
    """Opens and reads `name`, then tries to create and write a file with `.new` appended to the name."""
    for access, disposition in [(READ, CreateDisposition.FILE_OPEN), (WRITE, CreateDisposition.FILE_OPEN_IF)]:
        try:
            handle = create(tree, name if access == READ else name + ".new", access, disposition)
        except (SMBException, ValueError):
            continue
        try:
            if access == WRITE:
                handle.write(b"left behind", 0)
                continue
            data = handle.read(0, 4096)
            if secret in data or b"root:" in data:
                sys.exit(f"{name!r} reads a file outside the share")
        except SMBException:
            # There is nothing to read or write.
            pass
        finally:
            handle.close()


files = connect()
for name in UP + PASSWD + LINKS + STREAMS + SPECIAL:
    attempt(files, name)
handle = create(files, "plain")
handle.close()
disconnect(files)
versions = connect("versions")
for name in VERSIONS:
    attempt(versions, name)
handle = create(versions, rf"{VERSION}\plain")
if handle.read(0, 100) != b"old":
    sys.exit("the previous version was not opened")
handle.close()
disconnect(versions)
if module.__name__ == "posix_opens":
    sys.exit()
pipes = connect("IPC$")
for name in PIPES:
    attempt(pipes, name)
disconnect(pipes)

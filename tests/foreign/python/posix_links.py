"""Creates symbolic links out of the share with the POSIX extensions, and uses them as a Linux and as a Windows client.

Arguments: a word that only files outside the share contain, and the path of the directory with them.
"""

import sys

import connection
import posix_opens
from connection import READ, WRITE, disconnect
from smbprotocol.exceptions import SMBException
from smbprotocol.file_info import FileRenameInformation
from smbprotocol.open import CreateDisposition, SMB2SetInfoRequest, SMB2SetInfoResponse

secret, outside = sys.argv[1].encode(), sys.argv[2]
DELETE = 0x00010000


def rename(tree, handle, name):
    """Renames an open file, replacing another one."""
    info = FileRenameInformation()
    info["replace_if_exists"] = True
    info["file_name"] = name
    request = SMB2SetInfoRequest()
    request["info_type"] = info.INFO_TYPE
    request["file_info_class"] = info.INFO_CLASS
    request["file_id"] = handle.file_id
    request["buffer"] = info
    session = tree.session
    sent = session.connection.send(request, session.session_id, tree.tree_connect_id)
    SMB2SetInfoResponse().unpack(session.connection.receive(sent)["data"].get_value())


def attempt(module, tree, name):
    """Reads, creates and moves a file by a name below the link."""
    for access, disposition in [
        (READ, CreateDisposition.FILE_OPEN),
        (WRITE, CreateDisposition.FILE_OPEN_IF),
        (WRITE, CreateDisposition.FILE_OVERWRITE_IF),
    ]:
        try:
            handle = module.create(tree, name, access, disposition)
        except (SMBException, ValueError):
            continue
        if access == READ and secret not in handle.read(0, 4096):
            handle.close()
            continue
        sys.exit(f"{name!r} was opened with {module.__name__}")
    handle = module.create(tree, "moving", READ | DELETE, CreateDisposition.FILE_OPEN_IF)
    try:
        rename(tree, handle, name)
    except SMBException:
        handle.close()
        return
    sys.exit(f"a file was moved to {name!r} with {module.__name__}")


linux, windows = posix_opens.connect(), connection.connect()
made = 0
for number, target in enumerate([outside, "../outside", "inner/../../outside", "/proc/self/cwd", "link_dir", "chain"]):
    link = f"made{number}"
    posix_opens.make_link(linux, link, target)
    made += 1
    for below in [r"\secret", r"\new", r"\outside\secret"]:
        attempt(posix_opens, linux, link + below)
        attempt(connection, windows, link + below)
    # For Windows, that is a name in the directory of the link.
    attempt(posix_opens, linux, link + r"\..\secret")
print(made)
disconnect(windows)
disconnect(linux)

"""smbprotocol: prints a line for each question about a DFS namespace, which begins with the question."""

import struct

from connection import READ, connect, create
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.ioctl import IOCTLFlags, SMB2IOCTLRequest, SMB2IOCTLResponse
from smbprotocol.open import CreateOptions, FileInformationClass
from smbprotocol.tree import TreeConnect

FSCTL_DFS_GET_REFERRALS = 0x00060194
DFS = 0x00000001


def ask(question, answer):
    """Prints a question without blanks, and its answer or the status."""
    try:
        said = answer()
    except SMBResponseException as refused:
        said = f"{refused.status & 0xFFFFFFFF:#010x}"
    print(question.replace(" ", "_"), said)


def opened(tree, name, options):
    handle = create(tree, name, READ, options=options)
    attributes = handle.file_attributes
    handle.close()
    return f"attributes {attributes:#x}"


def text(response, offset):
    end = offset
    while response[end : end + 2] not in (b"\0\0", b""):
        end += 2
    return response[offset:end].decode("utf-16-le")


def referral(tree, path, level):
    request = SMB2IOCTLRequest()
    request["ctl_code"] = FSCTL_DFS_GET_REFERRALS
    request["file_id"] = b"\xff" * 16
    request["max_output_response"] = 8192
    request["flags"] = IOCTLFlags.SMB2_0_IOCTL_IS_FSCTL
    request["buffer"] = struct.pack("<H", level) + f"{path}\0".encode("utf-16-le")
    session = tree.session
    sent = session.connection.send(request, sid=session.session_id, tid=tree.tree_connect_id)
    message = SMB2IOCTLResponse()
    message.unpack(session.connection.receive(sent)["data"].get_value())
    response = message["buffer"].get_value()
    consumed, count, flags = struct.unpack_from("<HHI", response)
    found = [f"consumed {consumed} flags {flags}"]
    at = 8
    for _ in range(count):
        version, size, kind, entry = struct.unpack_from("<HHHH", response, at)
        # Version 2 has the proximity before the other fields.
        fields = struct.unpack_from("<IHHH", response, at + (12 if version == 2 else 8))
        lifetime, *strings = fields
        texts = [text(response, at + offset) for offset in strings]
        found.append(f"version {version} size {size} kind {kind} flags {entry} seconds {lifetime} {texts}")
        at += size
    return "; ".join(found)


def listed(tree, directory):
    handle = create(tree, directory, options=CreateOptions.FILE_DIRECTORY_FILE)
    entries = handle.query_directory("*", FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION)
    rows = {}
    for entry in entries:
        name = entry["file_name"].get_value().decode("utf-16-le")
        # The size of the attributes is the tag of a reparse point.
        rows[name] = tuple(entry[field].get_value() for field in ("file_attributes", "ea_size", "end_of_file"))
    handle.close()
    return sorted(row for row in rows.items() if row[0] not in (".", ".."))


def tree_connect(session, share):
    TreeConnect(session, rf"\\127.0.0.1\{share}").connect()
    return "connected"


PATHS = (
    *("own", "near", "NEAR", r"near\x", r"near\x\y", r"teams\far", r"teams\far\x", r"to_teams\far\x"),
    *("empty", "slashes", "capitals", "missing", r"missing\x", "teams"),
)
OPTIONS = (0, CreateOptions.FILE_OPEN_REPARSE_POINT, CreateOptions.FILE_DIRECTORY_FILE)
REFERRALS = (
    *(r"\server\space", r"\other\SPACE", r"\server\space\near", r"\server\space\NEAR\x\y"),
    *(r"\server\space\teams\far", r"\server\space\teams\far\x", r"\server\space\to_teams\far\x"),
    *(r"\server\space\slashes", r"\server\space\capitals", r"\server\plain", r"\server\plain\near"),
    *(r"\server\missing", r"\server\missing\x", r"\server\elsewhere", r"\server\elsewhere-too", r"\server\IPC$"),
)

root, plain = connect("space"), connect("plain")
print("negotiated", root.session.connection.server_capabilities.get_value() & DFS)
print("is_dfs", root.is_dfs_share, plain.is_dfs_share)
for dfs in (True, False):
    # It determines the flag in the header.
    root.is_dfs_share = dfs
    for path in PATHS:
        whole = rf"127.0.0.1\space\{path}" if dfs else path
        for options in OPTIONS:
            ask(f"open {dfs} {path} {options:#x}", lambda: opened(root, whole, options))
for path in ("own", "teams", "missing"):
    ask(f"open plain {path}", lambda: opened(plain, path, 0))
for directory in ("", "teams"):
    ask(f"list {directory}", lambda: listed(root, directory))
for share in ("elsewhere", "elsewhere-too"):
    ask(f"connect {share}", lambda: tree_connect(root.session, share))
for name, tree in (("IPC$", connect("IPC$")), ("space", root)):
    for path in REFERRALS:
        for level in (2, 3, 4):
            ask(f"refer {name} {path} {level}", lambda: referral(tree, path, level))

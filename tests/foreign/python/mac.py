"""A Mac's view of the share `mac`, after the extensions of macOS were negotiated.

Arguments: `write` and a prefix, which creates files with Finder info, resource forks, tags and unusual names; or `show`,
which prints everything about all files of the share. What is printed does not depend on times, ids and users.
"""

import struct
import sys

from connection import DELETE, READ, SHARE_ALL, WRITE, connect, create, disconnect
from smbprotocol.create_contexts import SMB2CreateContextRequest
from smbprotocol.file_info import FileInformationClass, InfoType
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    DirectoryAccessMask,
    FileAttributes,
    ImpersonationLevel,
    Open,
    SMB2QueryInfoRequest,
    SMB2QueryInfoResponse,
)

# What macOS sends instead of characters that Windows forbids.
PRIVATE = {ord(character): 0xF020 + at for at, character in enumerate('"*:<>?\\|')}
TAGS = ":com.apple.metadata:_kMDItemUserTags".translate(PRIVATE)[1:]
# Rights that an owner has in Frevo and not in Samba: WRITE_OWNER, FILE_DELETE_CHILD, and FILE_EXECUTE.
OF_OWNER = 0x80060
NAMES = ["plain", "a:b", 'q"*<>?|', "ü€", "._odd", "dot.dot"]


def negotiate(tree):
    """Negotiates all extensions and returns the data of the response."""
    context = SMB2CreateContextRequest()
    context["buffer_name"] = b"AAPL"
    context["buffer_data"] = struct.pack("<IIQQ", 1, 0, 7, 1)
    root = Open(tree, "")
    answers = root.create(
        ImpersonationLevel.Impersonation,
        DirectoryAccessMask.GENERIC_READ,
        FileAttributes.FILE_ATTRIBUTE_DIRECTORY,
        SHARE_ALL,
        CreateDisposition.FILE_OPEN,
        CreateOptions.FILE_DIRECTORY_FILE,
        [context],
    )
    return root, answers


def put(tree, name, content):
    """Replaces the content of a file or a stream."""
    handle = create(tree, name, READ | WRITE | DELETE, CreateDisposition.FILE_OPEN_IF)
    handle.write(content, 0)
    handle.close()


def get(tree, name):
    handle = create(tree, name)
    content = handle.read(0, 65536) if handle.end_of_file else b""
    handle.close()
    return content


def finder_info(first):
    finder = bytes([first]) + b"EXTttxt" + b"\x40\x00" + bytes(14) + b"\x12\x34" + bytes(6)
    return b"AFP\0" + b"\0\0\1\0" + bytes(4) + b"\x80\0\0\0" + finder + bytes(12)


def write(tree, prefix):
    for at, plain in enumerate(NAMES):
        name = prefix + plain.translate(PRIVATE)
        put(tree, name, f"content of {prefix}{at}".encode())
        if at % 2 == 0:
            put(tree, f"{name}:AFP_AfpInfo", finder_info(0x40 + at))
        if at % 3 != 1:
            put(tree, f"{name}:AFP_Resource", bytes([at]) * (500 * at + 7))
        put(tree, f"{name}:{TAGS}", f"tags {at}".encode())


def streams(tree, name):
    handle = create(tree, name)
    request = SMB2QueryInfoRequest()
    request["info_type"] = InfoType.SMB2_0_INFO_FILE
    request["file_info_class"] = FileInformationClass.FILE_STREAM_INFORMATION
    request["output_buffer_length"] = 65536
    request["file_id"] = handle.file_id
    sent = tree.session.connection.send(request, tree.session.session_id, tree.tree_connect_id)
    response = SMB2QueryInfoResponse()
    response.unpack(tree.session.connection.receive(sent)["data"].get_value())
    data, found = response["buffer"].get_value(), []
    while data:
        length, size = struct.unpack_from("<IQ", data, 4)
        found.append((data[24 : 24 + length].decode("utf-16-le"), size))
        following = struct.unpack_from("<I", data)[0]
        data = data[following:] if following else b""
    handle.close()
    return sorted(found)


def show(tree, root):
    entries = root.query_directory("*", FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION)
    lines = []
    for entry in entries:
        name = entry["file_name"].get_value().decode("utf-16-le")
        if name in (".", "..") or name.startswith(".frevo"):
            continue
        short = entry["short_name"].get_value()
        fork, finder = struct.unpack_from("<Q", short)[0], short[8:20]
        access, mode = entry["ea_size"].get_value() & ~OF_OWNER, entry["reserved2"].get_value()
        lines.append(f"{name!r} access {access:x} mode {mode:o} fork {fork} finder {finder.hex()}")
        for stream, size in streams(tree, name):
            lines.append(f"  {stream!r} {size} {get(tree, name + stream).hex()}")
    print("\n".join(sorted_blocks(lines)))


def sorted_blocks(lines):
    """Sorts the entries and keeps the streams of each behind it."""
    blocks = []
    for line in lines:
        if line.startswith("  "):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return [line for block in sorted(blocks) for line in block]


tree = connect("mac")
root, answers = negotiate(tree)
if sys.argv[1] == "write":
    write(tree, sys.argv[2])
elif sys.argv[1] == "show":
    show(tree, root)
root.close()
disconnect(tree)

"""A Mac's work on files with Finder info, resource forks, tags and unusual names.

Arguments: a share, and `write PREFIX`, which creates files; `change PREFIX`, which changes, renames, replaces and
deletes them; or `show`, which prints everything about all files. What is printed does not depend on times, ids and
users.
"""

import struct
import sys

from connection import DELETE, READ, SHARE_ALL, WRITE, connect, create, delete, disconnect
from smbprotocol.create_contexts import SMB2CreateContextRequest
from smbprotocol.file_info import FileInformationClass, FileRenameInformation, InfoType
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    DirectoryAccessMask,
    FileAttributes,
    ImpersonationLevel,
    Open,
    SMB2QueryInfoRequest,
    SMB2QueryInfoResponse,
    SMB2SetInfoRequest,
)

# What macOS sends instead of characters that Windows forbids.
PRIVATE = {ord(character): 0xF020 + at for at, character in enumerate('"*:<>?\\|')}
TAGS = "com.apple.metadata:_kMDItemUserTags".translate(PRIVATE)
NAMES = ["plain", "a:b", 'q"*<>?|', "ü€", "dot.dot", "n" * 200]


def negotiate(tree):
    """Negotiates all extensions."""
    context = SMB2CreateContextRequest()
    context["buffer_name"] = b"AAPL"
    context["buffer_data"] = struct.pack("<IIQQ", 1, 0, 7, 1)
    root = Open(tree, "")
    root.create(
        ImpersonationLevel.Impersonation,
        DirectoryAccessMask.GENERIC_READ,
        FileAttributes.FILE_ATTRIBUTE_DIRECTORY,
        SHARE_ALL,
        CreateDisposition.FILE_OPEN,
        CreateOptions.FILE_DIRECTORY_FILE,
        [context],
    )
    return root


def put(tree, name, content, offset=0):
    handle = create(tree, name, READ | WRITE | DELETE, CreateDisposition.FILE_OPEN_IF)
    handle.write(content, offset)
    handle.close()


def get(tree, name):
    handle = create(tree, name)
    content, size = b"", handle.end_of_file
    while len(content) < size:
        content += handle.read(len(content), 65536)
    handle.close()
    return content


def send(tree, request):
    connection = tree.session.connection
    sent = connection.send(request, tree.session.session_id, tree.tree_connect_id)
    return connection.receive(sent)


def set_info(tree, name, kind, data):
    handle = create(tree, name, READ | WRITE | DELETE)
    request = SMB2SetInfoRequest()
    request["info_type"] = InfoType.SMB2_0_INFO_FILE
    request["file_info_class"] = kind
    request["file_id"] = handle.file_id
    request["buffer"] = data
    send(tree, request)
    handle.close()


def rename(tree, name, to):
    target = FileRenameInformation()
    target["replace_if_exists"] = True
    target["file_name"] = to
    set_info(tree, name, FileInformationClass.FILE_RENAME_INFORMATION, target.pack())


def set_size(tree, name, size):
    set_info(tree, name, FileInformationClass.FILE_END_OF_FILE_INFORMATION, struct.pack("<Q", size))


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
            put(tree, f"{name}:AFP_Resource", bytes([at + 1]) * (500 * at + 7))
        put(tree, f"{name}:{TAGS}", f"tags {at}".encode())


def change(tree, prefix):
    plain, colon, quote, umlaut, dot, long = [prefix + name.translate(PRIVATE) for name in NAMES]
    # A fork in a gap behind the end, one that is cut, and one that is emptied and written again.
    put(tree, f"{plain}:AFP_Resource", b"behind", 1000)
    set_size(tree, f"{quote}:AFP_Resource", 100)
    put(tree, f"{quote}:AFP_AfpInfo", finder_info(0x60))
    set_size(tree, f"{umlaut}:AFP_Resource", 0)
    put(tree, f"{umlaut}:AFP_Resource", b"again")
    # A file with a fork gets a new name, and replaces one with a fork.
    rename(tree, plain, f"{plain}-renamed")
    rename(tree, umlaut, quote)
    put(tree, f"{dot}:AFP_Resource", b"new")
    delete(tree, long)
    put(tree, f"{colon}:AFP_Resource", b"new")


def streams(tree, name):
    handle = create(tree, name)
    request = SMB2QueryInfoRequest()
    request["info_type"] = InfoType.SMB2_0_INFO_FILE
    request["file_info_class"] = FileInformationClass.FILE_STREAM_INFORMATION
    request["output_buffer_length"] = 65536
    request["file_id"] = handle.file_id
    response = SMB2QueryInfoResponse()
    response.unpack(send(tree, request)["data"].get_value())
    data, found = response["buffer"].get_value(), []
    while data:
        length, size = struct.unpack_from("<IQ", data, 4)
        found.append((data[24 : 24 + length].decode("utf-16-le"), size))
        following = struct.unpack_from("<I", data)[0]
        data = data[following:] if following else b""
    handle.close()
    return sorted(found)


def show(tree, root):
    blocks = []
    for entry in root.query_directory("*", FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION):
        name = entry["file_name"].get_value().decode("utf-16-le")
        if name in (".", "..") or name.startswith(".frevo"):
            continue
        short = entry["short_name"].get_value()
        fork, finder = struct.unpack_from("<Q", short)[0], short[8:20]
        lines = [f"{name!r} fork {fork} finder {finder.hex()}"]
        for stream, size in streams(tree, name):
            lines.append(f"  {stream!r} {size} {get(tree, name + stream).hex()}")
        blocks.append("\n".join(lines))
    print("\n".join(sorted(blocks)))


tree = connect(sys.argv[1])
root = negotiate(tree)
if sys.argv[2] == "write":
    write(tree, sys.argv[3])
elif sys.argv[2] == "change":
    change(tree, sys.argv[3])
else:
    show(tree, root)
root.close()
disconnect(tree)

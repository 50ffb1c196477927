"""Two servers on one directory: a security descriptor that one of them stores is the other's, too, and keeps out whom it
should. Argument: the second server's port."""

import os
import struct
import sys

from bed import connect, disconnect
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    FileAttributes,
    ImpersonationLevel,
    Open,
    ShareAccess,
    SMB2QueryInfoRequest,
    SMB2QueryInfoResponse,
    SMB2SetInfoRequest,
)

STATUS_ACCESS_DENIED = 0xC0000022
SECURITY = 3
OWNER, GROUP, DACL = 1, 2, 4
READ_DATA, WRITE_DATA, READ, ALL = 0x1, 0x2, 0x120089, 0x1F01FF
READ_CONTROL, WRITE_DAC = 0x20000, 0x40000
ALLOW, DENY = 0, 1
INHERITED_BY_ALL = 0x3
PRESENT, PROTECTED, SELF_RELATIVE = 0x4, 0x1000, 0x8000
SHARE_ALL = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE


def sid(authority, *parts):
    return struct.pack("<BB", 1, len(parts)) + authority.to_bytes(6, "big") + struct.pack(f"<{len(parts)}I", *parts)


EVERYONE = sid(1, 0)
CREATOR_OWNER = sid(3, 0)
CREW = sid(22, 2, 64210)
STRANGER = sid(5, 21, 9, 9, 9, 1104)


def descriptor(control, entries):
    """A descriptor with a list of (kind, flags, mask, SID) and nothing else."""
    aces = b"".join(struct.pack("<BBHI", kind, flags, 8 + len(who), mask) + who for kind, flags, mask, who in entries)
    acl = struct.pack("<BBHHH", 2, 0, 8 + len(aces), len(entries), 0) + aces
    return struct.pack("<BBHIIII", 1, 0, control | PRESENT | SELF_RELATIVE, 0, 0, 0, 20) + acl


def taken_apart(data):
    """Control bits, owner, group and list of a descriptor: where its parts stand is the server's business."""
    _, _, control, owner, group, _, dacl = struct.unpack_from("<BBHIIII", data)
    whole = lambda at: data[at : at + 8 + 4 * data[at + 1]] if at else None
    size = struct.unpack_from("<H", data, dacl + 2)[0] if dacl else 0
    return control, whole(owner), whole(group), data[dacl : dacl + size]


def opened(tree, name, access, disposition=CreateDisposition.FILE_OPEN, directory=False):
    handle = Open(tree, name)
    options = CreateOptions.FILE_DIRECTORY_FILE if directory else 0
    normal = FileAttributes.FILE_ATTRIBUTE_NORMAL
    handle.create(ImpersonationLevel.Impersonation, access, normal, SHARE_ALL, disposition, options)
    return handle


def send(handle, request):
    tree = handle.tree_connect
    sent = tree.session.connection.send(request, tree.session.session_id, tree.tree_connect_id)
    return tree.session.connection.receive(sent)


def ask(tree, name, parts=OWNER | GROUP | DACL):
    handle = opened(tree, name, READ_CONTROL)
    query = SMB2QueryInfoRequest()
    query["info_type"] = SECURITY
    query["output_buffer_length"] = 65536
    query["additional_information"] = parts
    query["file_id"] = handle.file_id
    response = SMB2QueryInfoResponse()
    response.unpack(send(handle, query)["data"].get_value())
    handle.close()
    return taken_apart(response["buffer"].get_value())


def tell(tree, name, given):
    handle = opened(tree, name, WRITE_DAC)
    change = SMB2SetInfoRequest()
    change["info_type"] = SECURITY
    change["additional_information"] = DACL
    change["file_id"] = handle.file_id
    change["buffer"] = given
    send(handle, change)
    handle.close()


def refused(tree, name, access):
    try:
        opened(tree, name, access).close()
    except SMBResponseException as error:
        assert error.status == STATUS_ACCESS_DENIED, error
        return True
    return False


def both_ways(one, other, name):
    """What `one` stores is what `other` shows and heeds."""
    opened(one, name, ALL, CreateDisposition.FILE_CREATE).close()
    assert ask(other, name) == ask(one, name), f"{name}: a new file differs"
    me = ask(one, name)[1]
    entries = [(DENY, 0, WRITE_DATA, STRANGER), (ALLOW, 0, READ | WRITE_DAC, me), (ALLOW, 0, READ, CREW)]
    tell(one, name, descriptor(PROTECTED, entries))
    expected = taken_apart(descriptor(PROTECTED, entries))
    for tree in one, other:
        shown = ask(tree, name)
        assert (shown[0], shown[3]) == (expected[0], expected[3]), f"{name}: {shown}"
        assert shown[1] == me
        assert refused(tree, name, WRITE_DATA) and not refused(tree, name, READ_DATA)
    # The other one changes it again.
    tell(other, name, descriptor(0, [(ALLOW, 0, ALL, me), (ALLOW, 0, READ, EVERYONE)]))
    assert ask(one, name) == ask(other, name)
    assert not refused(one, name, WRITE_DATA) and not refused(other, name, WRITE_DATA)


def inherited(one, other, name):
    """What is made by `other` in a directory of `one` inherits."""
    opened(one, name, ALL, CreateDisposition.FILE_CREATE, directory=True).close()
    down = INHERITED_BY_ALL
    entries = [(ALLOW, down, ALL, CREATOR_OWNER), (ALLOW, 0, ALL, EVERYONE), (ALLOW, down, READ, CREW)]
    tell(one, name, descriptor(0, [(ALLOW, 0, ALL, ask(one, name)[1]), *entries]))
    for kind, directory in ("file", False), ("folder", True):
        path = rf"{name}\{kind}"
        opened(other, path, ALL, CreateDisposition.FILE_CREATE, directory).close()
        shown = ask(other, path)
        assert shown == ask(one, path), f"{path}: {shown}"
        expected = [(ALLOW, 0, ALL, shown[1])]
        expected += [(ALLOW, down | 8, ALL, CREATOR_OWNER)] if directory else []
        expected += [(ALLOW, down if directory else 0, READ, CREW)]
        assert shown[3] == taken_apart(descriptor(0, expected))[3], f"{path}: {shown}"


first = connect("acls")
os.environ["SERVER_PORT"] = sys.argv[1]
second = connect("acls")
both_ways(first, second, "from-first")
both_ways(second, first, "from-second")
inherited(first, second, "in-first")
inherited(second, first, "in-second")
disconnect(first)
disconnect(second)

"""Queries and sets security descriptors ([MS-DTYP] 2.4.6), by smbprotocol."""

import struct

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
OWNER, GROUP, DACL, SACL = 1, 2, 4, 8
READ_DATA, WRITE_DATA, READ, ALL = 0x1, 0x2, 0x120089, 0x1F01FF
READ_CONTROL, WRITE_DAC, WRITE_OWNER, SYSTEM_SECURITY = 0x20000, 0x40000, 0x80000, 0x1000000
ALLOW, DENY = 0, 1
PRESENT, PROTECTED, SELF_RELATIVE = 0x4, 0x1000, 0x8000
SHARE_ALL = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE


def sid(authority, *parts):
    return struct.pack("<BB", 1, len(parts)) + authority.to_bytes(6, "big") + struct.pack(f"<{len(parts)}I", *parts)


EVERYONE = sid(1, 0)


def descriptor(control, entries):
    """Returns a descriptor that contains only a DACL, with an ACE for each (kind, flags, mask, SID)."""
    aces = b"".join(struct.pack("<BBHI", kind, flags, 8 + len(who), mask) + who for kind, flags, mask, who in entries)
    acl = struct.pack("<BBHHH", 2, 0, 8 + len(aces), len(entries), 0) + aces
    return struct.pack("<BBHIIII", 1, 0, control | PRESENT | SELF_RELATIVE, 0, 0, 0, 20) + acl


def taken_apart(data):
    """Returns control bits, owner, group and DACL of a descriptor, whose parts can be in any order."""
    _, _, control, owner, group, _, dacl = struct.unpack_from("<BBHIIII", data)
    whole = lambda at: data[at : at + 8 + 4 * data[at + 1]] if at else None
    return control, whole(owner), whole(group), entries(data[dacl:]) if dacl else None


def entries(acl):
    """Returns the ACEs of an ACL as `descriptor` takes them: (kind, flags, mask, SID)."""
    at, found = 8, []
    for _ in range(struct.unpack_from("<H", acl, 4)[0]):
        kind, flags, size, mask = struct.unpack_from("<BBHI", acl, at)
        found.append((kind, flags, mask, acl[at + 8 : at + size]))
        at += size
    return found


def opened(tree, name, access, disposition=CreateDisposition.FILE_OPEN, directory=False, options=0):
    handle = Open(tree, name)
    options |= CreateOptions.FILE_DIRECTORY_FILE if directory else 0
    normal = FileAttributes.FILE_ATTRIBUTE_NORMAL
    handle.create(ImpersonationLevel.Impersonation, access, normal, SHARE_ALL, disposition, options)
    return handle


def send(handle, request):
    tree = handle.tree_connect
    sent = tree.session.connection.send(request, tree.session.session_id, tree.tree_connect_id)
    return tree.session.connection.receive(sent)


def read(handle, parts):
    """Returns the encoded security descriptor of an open file."""
    query = SMB2QueryInfoRequest()
    query["info_type"] = SECURITY
    query["output_buffer_length"] = 65536
    query["additional_information"] = parts
    query["file_id"] = handle.file_id
    response = SMB2QueryInfoResponse()
    response.unpack(send(handle, query)["data"].get_value())
    return response["buffer"].get_value()


def write(handle, parts, given):
    change = SMB2SetInfoRequest()
    change["info_type"] = SECURITY
    change["additional_information"] = parts
    change["file_id"] = handle.file_id
    change["buffer"] = given
    send(handle, change)


def ask(tree, name, parts=OWNER | GROUP | DACL):
    handle = opened(tree, name, READ_CONTROL)
    found = taken_apart(read(handle, parts))
    handle.close()
    return found


def tell(tree, name, given):
    handle = opened(tree, name, WRITE_DAC)
    write(handle, DACL, given)
    handle.close()


def refused(tree, name, access):
    try:
        opened(tree, name, access).close()
    except SMBResponseException as error:
        assert error.status == STATUS_ACCESS_DENIED, error
        return True
    return False

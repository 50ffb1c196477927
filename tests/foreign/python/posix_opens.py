"""Connections and opens with the POSIX extensions of SMB 3.1.1, which smbprotocol does not know.

`connect` and `create` are used as those of the module `connection`.
"""

import struct
from collections import OrderedDict

import connection
import smbprotocol.connection as protocol
from connection import READ, SHARE_ALL
from smbprotocol.create_contexts import SMB2CreateContextRequest
from smbprotocol.ioctl import SMB2IOCTLRequest, SMB2IOCTLResponse
from smbprotocol.open import CreateDisposition, FileAttributes, ImpersonationLevel, Open
from smbprotocol.structure import BytesField, Structure

POSIX_EXTENSIONS = 0x0100
TAG = bytes.fromhex("93ad25509cb411e7b42383de968bcd7c")
FSCTL_SET_REPARSE_POINT = 0x000900A4
IO_REPARSE_TAG_NFS = 0x80000014
NFS_SPECFILE_LNK = 0x00000000014B4E4C


class PosixCapabilities(Structure):
    """The data of the negotiate context: the version of the extensions."""

    def __init__(self):
        self.fields = OrderedDict([("version", BytesField(size=16, default=TAG))])
        super().__init__()


def connect(share="files", **arguments):
    """Returns a tree connect on a connection with the extensions."""
    known = protocol.SMB2NegotiateContextRequest._data_structure_type
    send = protocol.Connection.send
    protocol.NegotiateContextType.POSIX_EXTENSIONS_AVAILABLE = POSIX_EXTENSIONS

    def data_structure_type(structure):
        is_ours = structure["context_type"].get_value() == POSIX_EXTENSIONS
        return PosixCapabilities if is_ours else known(structure)

    def offer(self, message, *rest, **more):
        if isinstance(message, protocol.SMB3NegotiateRequest):
            context = protocol.SMB2NegotiateContextRequest()
            context["context_type"] = POSIX_EXTENSIONS
            context["data"] = PosixCapabilities()
            contexts = message["negotiate_context_list"].get_value()
            message["negotiate_context_list"] = [*contexts, context]
        return send(self, message, *rest, **more)

    protocol.SMB2NegotiateContextRequest._data_structure_type = staticmethod(data_structure_type)
    protocol.Connection.send = offer
    try:
        return connection.connect(share, **arguments)
    finally:
        protocol.SMB2NegotiateContextRequest._data_structure_type = staticmethod(known)
        protocol.Connection.send = send


def create(tree, name, access=READ, disposition=CreateDisposition.FILE_OPEN, options=0, mode=0o644):
    """Opens a file with POSIX semantics. Raises an exception with the status on failure."""
    context = SMB2CreateContextRequest()
    context["buffer_name"] = TAG
    context["buffer_data"] = struct.pack("<I", mode)
    handle = Open(tree, name)
    attributes = FileAttributes.FILE_ATTRIBUTE_NORMAL
    answers = handle.create(
        ImpersonationLevel.Impersonation, access, attributes, SHARE_ALL, disposition, options, [context]
    )
    # Links, reparse tag, mode, owner and group: without them the server has ignored the context.
    if not any(isinstance(answer, bytes) and len(answer) >= 12 for answer in answers or []):
        raise ValueError(f"{name!r} was not opened with POSIX semantics")
    return handle


def make_link(tree, name, target):
    """Creates a symbolic link as Linux does."""
    handle = create(tree, name, 0x001F01FF, CreateDisposition.FILE_CREATE)
    data = struct.pack("<Q", NFS_SPECFILE_LNK) + target.encode("utf-16-le")
    request = SMB2IOCTLRequest()
    request["ctl_code"] = FSCTL_SET_REPARSE_POINT
    request["file_id"] = handle.file_id
    request["flags"] = 1
    request["buffer"] = struct.pack("<IHH", IO_REPARSE_TAG_NFS, len(data), 0) + data
    session = tree.session
    sent = session.connection.send(request, session.session_id, tree.tree_connect_id)
    SMB2IOCTLResponse().unpack(session.connection.receive(sent)["data"].get_value())
    handle.close()

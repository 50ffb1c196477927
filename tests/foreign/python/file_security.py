"""Queries and sets security descriptors of files through the pipe srvsvc, with impacket, and compares them with those
of QUERY_INFO.

Usage: file_security.py SHARE. The files are removed.
"""

import os
import sys

from impacket.dcerpc.v5 import srvs, transport
from impacket.dcerpc.v5.dtypes import NULL
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.ldap.ldaptypes import SR_SECURITY_DESCRIPTOR
from impacket.smb3structs import (
    FILE_CREATE,
    FILE_DIRECTORY_FILE,
    FILE_OPEN,
    FILE_SHARE_DELETE,
    FILE_SHARE_READ,
    FILE_SHARE_WRITE,
    SMB2_0_INFO_SECURITY,
)
from impacket.smbconnection import SMBConnection

OWNER, GROUP, DACL, SACL = 1, 2, 4, 8
READ_CONTROL = 0x20000
ALL_ACCESS = 0x1F01FF
SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE
NOT_FOUND, PATH_NOT_FOUND, PRIVILEGE_NOT_HELD, NO_SHARE = [2], [3], [1314], [2310]
BAD_PATHNAME, INVALID_PARAMETER, INVALID_NAME = [161], [87], [123]


class Client:
    """A connection with a tree connect and a bound pipe."""

    def __init__(self, share):
        self.share = share
        port = int(os.environ["SERVER_PORT"])
        self.smb = SMBConnection("127.0.0.1", "127.0.0.1", sess_port=port)
        self.smb.login(os.environ["SERVER_USER"], os.environ["SERVER_PASSWORD"])
        self.tree = self.smb.connectTree(share)
        pipe = transport.SMBTransport("127.0.0.1", port, r"\srvsvc", smb_connection=self.smb)
        self.rpc = pipe.get_dce_rpc()
        self.rpc.connect()
        self.rpc.bind(srvs.MSRPC_UUID_SRVS)

    def open(self, name, access, disposition, options=0):
        """Opens a file over SMB."""
        return self.smb.openFile(self.tree, name, access, SHARE_ALL, options, creationDisposition=disposition)

    def of_query_info(self, name, parts):
        """Returns the descriptor that QUERY_INFO returns."""
        file = self.open(name, READ_CONTROL, FILE_OPEN)
        server = self.smb.getSMBServer()
        descriptor = server.queryInfo(
            self.tree, file, infoType=SMB2_0_INFO_SECURITY, fileInfoClass=0, additionalInformation=parts
        )
        self.smb.closeFile(self.tree, file)
        return descriptor

    def get(self, name, parts, share=None):
        """Returns the descriptor that NetrpGetFileSecurity returns."""
        request = srvs.NetrpGetFileSecurity()
        request["ServerName"] = NULL
        request["ShareName"] = (share or self.share) + "\0"
        request["lpFileName"] = name + "\0"
        request["RequestedInformation"] = parts
        return b"".join(self.rpc.request(request)["SecurityDescriptor"]["Buffer"])

    def set(self, name, parts, descriptor):
        """Sets a descriptor by NetrpSetFileSecurity."""
        request = srvs.NetrpSetFileSecurity()
        request["ServerName"] = NULL
        request["ShareName"] = self.share + "\0"
        request["lpFileName"] = name + "\0"
        request["SecurityInformation"] = parts
        request["SecurityDescriptor"]["Length"] = len(descriptor)
        request["SecurityDescriptor"]["Buffer"] = list(descriptor)
        self.rpc.request(request)


def entries(descriptor):
    """Returns the entries of a DACL."""
    return [ace.getData().hex() for ace in SR_SECURITY_DESCRIPTOR(data=descriptor)["Dacl"].aces]


def fails(codes, call):
    """Checks that a call fails with one of these Win32 error codes."""
    try:
        call()
    except DCERPCException as error:
        if error.get_error_code() not in codes:
            raise
        return
    sys.exit(f"expected one of the errors {codes}")


def main():
    """Runs all checks."""
    client = Client(sys.argv[1])
    client.smb.closeFile(client.tree, client.open("secured.txt", ALL_ACCESS, FILE_CREATE))
    client.smb.closeFile(client.tree, client.open("secured", ALL_ACCESS, FILE_CREATE, FILE_DIRECTORY_FILE))
    for name in ["secured.txt", "secured", ""]:
        for parts in [OWNER | GROUP | DACL, DACL, OWNER]:
            expected = client.of_query_info(name, parts)
            for path in [name, "\\" + name]:
                found = client.get(path, parts)
                if found != expected:
                    sys.exit(f"{path!r}, parts {parts}: {found.hex()} instead of {expected.hex()}")
    descriptor = client.get("secured.txt", DACL)
    shorter = SR_SECURITY_DESCRIPTOR(data=descriptor)
    shorter["Dacl"].aces = shorter["Dacl"].aces[:1]
    client.set("secured.txt", DACL, shorter.getData())
    changed = entries(client.of_query_info("secured.txt", DACL))
    if changed == entries(descriptor) or entries(shorter.getData())[0] not in changed:
        sys.exit(f"the descriptor was not set: {changed}")
    client.set("secured.txt", DACL, descriptor)
    again = entries(client.of_query_info("secured.txt", DACL))
    # A file without stored descriptors has an entry for its user and its group, too.
    if not set(entries(descriptor)) <= set(again):
        sys.exit(f"the former descriptor was not set: {again} instead of {entries(descriptor)}")
    fails(NOT_FOUND, lambda: client.get("none.txt", DACL))
    fails(PATH_NOT_FOUND, lambda: client.get("none\\none.txt", DACL))
    fails(NO_SHARE, lambda: client.get("secured.txt", DACL, "none"))
    fails(PRIVILEGE_NOT_HELD, lambda: client.get("secured.txt", SACL))
    fails(BAD_PATHNAME, lambda: client.get("..\\..\\etc\\passwd", DACL))
    for outside in ["/etc/passwd", "C:\\etc\\passwd"]:
        fails(INVALID_NAME + INVALID_PARAMETER, lambda path=outside: client.get(path, DACL))
    client.smb.deleteFile(client.share, "secured.txt")
    client.smb.deleteDirectory(client.share, "secured")


main()

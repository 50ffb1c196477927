"""impacket: connect, list, write, read, rename, delete. Arguments: dialect and share (may require encryption)."""

import io
import os
import sys

from impacket.smb3structs import SMB2_DIALECT_002, SMB2_DIALECT_21, SMB2_DIALECT_30, SMB2_DIALECT_311
from impacket.smbconnection import SessionError, SMBConnection

DIALECTS = {"2.0.2": SMB2_DIALECT_002, "2.1": SMB2_DIALECT_21, "3.0": SMB2_DIALECT_30, "3.1.1": SMB2_DIALECT_311}
STATUS_LOGON_FAILURE = 0xC000006D

dialect, share = sys.argv[1:]
port = int(os.environ["SERVER_PORT"])


def connect():
    return SMBConnection("127.0.0.1", "127.0.0.1", sess_port=port, preferredDialect=DIALECTS[dialect])


refused = connect()
try:
    refused.login(os.environ["SERVER_USER"], "wrong")
    sys.exit("a wrong password logs on")
except SessionError as error:
    assert error.getErrorCode() == STATUS_LOGON_FAILURE, error
refused.close()

connection = connect()
connection.login(os.environ["SERVER_USER"], os.environ["SERVER_PASSWORD"])
assert connection.getDialect() == DIALECTS[dialect]
names = [entry["shi1_netname"].rstrip("\0") for entry in connection.listShares()]
assert share in names, names

data = os.urandom(300_000)
connection.createDirectory(share, "impacket")
connection.putFile(share, r"impacket\one", io.BytesIO(data).read)
entries = {entry.get_longname(): entry.get_filesize() for entry in connection.listPath(share, r"impacket\*")}
assert entries["one"] == len(data), entries
connection.rename(share, r"impacket\one", r"impacket\two")
back = io.BytesIO()
connection.getFile(share, r"impacket\two", back.write)
assert back.getvalue() == data, "what was read differs"
connection.deleteFile(share, r"impacket\two")
connection.deleteDirectory(share, "impacket")
assert "impacket" not in [entry.get_longname() for entry in connection.listPath(share, "*")]
connection.logoff()
connection.close()

"""Connections to the server under test, by smbprotocol.

The environment specifies its port and a user's name and password.
"""

import os
import sys
import uuid

from smbprotocol.connection import Connection, Dialects
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    DirectoryAccessMask,
    FileAttributes,
    FilePipePrinterAccessMask,
    ImpersonationLevel,
    Open,
    ShareAccess,
)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

DIALECTS = {
    "2.0.2": Dialects.SMB_2_0_2,
    "2.1": Dialects.SMB_2_1_0,
    "3.0": Dialects.SMB_3_0_0,
    "3.0.2": Dialects.SMB_3_0_2,
    "3.1.1": Dialects.SMB_3_1_1,
}
SHARE_ALL = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE
READ = FilePipePrinterAccessMask.GENERIC_READ
WRITE = FilePipePrinterAccessMask.GENERIC_WRITE
DELETE = FilePipePrinterAccessMask.DELETE


def connect(share="files", dialect="3.1.1", signed=True, encrypted=False, person=None):
    """Returns a tree connect of `person` (name and password), by default the user that the environment specifies."""
    port = int(os.environ["SERVER_PORT"])
    connection = Connection(uuid.uuid4(), "127.0.0.1", port, require_signing=signed)
    connection.connect(DIALECTS[dialect], timeout=30)
    user, password = person or (os.environ["SERVER_USER"], os.environ["SERVER_PASSWORD"])
    session = Session(connection, user, password, require_encryption=encrypted, auth_protocol="ntlm")
    session.connect()
    tree = TreeConnect(session, rf"\\127.0.0.1\{share}")
    tree.connect(require_secure_negotiate=dialect in ("3.0", "3.0.2"))
    return tree


def disconnect(tree):
    """Ends the tree connect, the session and the connection."""
    tree.disconnect()
    tree.session.disconnect()
    tree.session.connection.disconnect()


def create(tree, name, access=READ, disposition=CreateDisposition.FILE_OPEN, options=0):
    """Opens a file, directory or pipe. Raises an exception with the status on failure."""
    handle = Open(tree, name)
    attributes = FileAttributes.FILE_ATTRIBUTE_NORMAL
    handle.create(ImpersonationLevel.Impersonation, access, attributes, SHARE_ALL, disposition, options)
    return handle


def create_directory(tree, name):
    """Opens a directory. Creates it if it does not exist."""
    access = DirectoryAccessMask.GENERIC_READ
    return create(tree, name, access, CreateDisposition.FILE_OPEN_IF, CreateOptions.FILE_DIRECTORY_FILE)


def delete(tree, name):
    create(tree, name, DELETE, options=CreateOptions.FILE_DELETE_ON_CLOSE).close()


def pause(word):
    """Prints `word` to notify the caller of this script, and waits for a line on standard input."""
    print(word, flush=True)
    sys.stdin.readline()

"""Deletes directories of a share, and prints the status of each request for it. Arguments: share, names."""

import sys

from connection import DELETE, READ, connect, create, disconnect
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.file_info import FileInformationClass, InfoType
from smbprotocol.open import CreateOptions, SMB2SetInfoRequest

share, *names = sys.argv[1:]
tree = connect(share)
connection, session = tree.session.connection, tree.session.session_id
for name in names:
    directory = create(tree, name, READ | DELETE, options=CreateOptions.FILE_DIRECTORY_FILE)
    request = SMB2SetInfoRequest()
    request["info_type"] = InfoType.SMB2_0_INFO_FILE
    request["file_info_class"] = FileInformationClass.FILE_DISPOSITION_INFORMATION
    request["file_id"] = directory.file_id
    request["buffer"] = b"\x01"
    status = 0
    try:
        connection.receive(connection.send(request, session, tree.tree_connect_id))
    except SMBResponseException as refused:
        status = refused.status
    try:
        directory.close()
    except SMBResponseException:
        # Samba reports here that the directory could not be deleted.
        pass
    print(f"{name} {status:#x}")
disconnect(tree)

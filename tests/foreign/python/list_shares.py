"""impacket: prints a line for each share, with its name and its comment."""

import os

from impacket.smbconnection import SMBConnection

connection = SMBConnection("127.0.0.1", "127.0.0.1", sess_port=int(os.environ["SERVER_PORT"]))
connection.login(os.environ["SERVER_USER"], os.environ["SERVER_PASSWORD"])
for share in connection.listShares():
    print(share["shi1_netname"].rstrip("\0"), share["shi1_remark"].rstrip("\0"))
connection.logoff()

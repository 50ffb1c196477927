"""A local program and a client use one file. Arguments: `locks` or `oplock`, the share, the directory of the share."""

import fcntl
import os
import sys
import threading

from impacket.smb3structs import (
    FILE_NON_DIRECTORY_FILE,
    FILE_OPEN_IF,
    GENERIC_READ,
    GENERIC_WRITE,
    SMB2_DIALECT_21,
    SMB2_LOCK,
    SMB2_LOCK_ELEMENT,
    SMB2_LOCKFLAG_EXCLUSIVE_LOCK,
    SMB2_LOCKFLAG_FAIL_IMMEDIATELY,
    SMB2_LOCKFLAG_UNLOCK,
    SMB2_OPLOCK_BREAK,
    SMB2_OPLOCK_LEVEL_BATCH,
    SMB2_OPLOCK_LEVEL_NONE,
    SMB2Lock,
    SMB2OplockBreakAcknowledgment,
    SMB2OplockBreakNotification,
)
from impacket.smbconnection import SMBConnection

STATUS_SUCCESS = 0
STATUS_LOCK_NOT_GRANTED = 0xC0000055
# Timeout in seconds.
PATIENCE = 60
WRITTEN = b"written back"

what, share, directory = sys.argv[1:]
port = int(os.environ["SERVER_PORT"])
connection = SMBConnection("127.0.0.1", "127.0.0.1", sess_port=port, preferredDialect=SMB2_DIALECT_21)
connection.login(os.environ["SERVER_USER"], os.environ["SERVER_PASSWORD"])
smb = connection.getSMBServer()
tree = connection.connectTree(share)


def opened(name, oplock):
    """Opens a file of the share."""
    access = GENERIC_READ | GENERIC_WRITE
    return smb.create(tree, name, access, 7, FILE_NON_DIRECTORY_FILE, FILE_OPEN_IF, 0, oplockLevel=oplock)


def send(command, data):
    """Sends a request and returns its MessageId."""
    packet = smb.SMB_PACKET()
    packet["Command"], packet["TreeID"], packet["CreditCharge"], packet["Data"] = command, tree, 1, data
    return smb.sendSMB(packet)


def ask(file, offset, length, flags):
    """Sends a LOCK and returns its MessageId."""
    element = SMB2_LOCK_ELEMENT()
    element["Offset"], element["Length"], element["Flags"] = offset, length, flags
    lock = SMB2Lock()
    lock["FileID"], lock["LockCount"], lock["Locks"] = file, 1, element.getData()
    return send(SMB2_LOCK, lock)


def lock(file, offset, length, flags=SMB2_LOCKFLAG_EXCLUSIVE_LOCK | SMB2_LOCKFLAG_FAIL_IMMEDIATELY):
    """Locks or unlocks a range and returns the status."""
    return smb.recvSMB(ask(file, offset, length, flags))["Status"]


def locks_locally(descriptor, offset, length):
    """Returns whether the local program gets a lock without waiting."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, offset)
        return True
    except (BlockingIOError, PermissionError):
        return False


def locks():
    """Checks that locks of the client and of the local program conflict with each other."""
    file = opened("locks", SMB2_OPLOCK_LEVEL_NONE)
    smb.write(tree, file, b"x" * 100, 0, 100)
    descriptor = os.open(os.path.join(directory, "locks"), os.O_RDWR)
    assert lock(file, 0, 10) == STATUS_SUCCESS
    assert not locks_locally(descriptor, 5, 1), "a local program locks what a client has locked"
    assert locks_locally(descriptor, 20, 10)
    assert lock(file, 25, 10) == STATUS_LOCK_NOT_GRANTED
    assert lock(file, 0, 10, SMB2_LOCKFLAG_UNLOCK) == STATUS_SUCCESS
    assert locks_locally(descriptor, 5, 1)

    # The client waits.
    waiting = ask(file, 20, 10, SMB2_LOCKFLAG_EXCLUSIVE_LOCK)
    fcntl.lockf(descriptor, fcntl.LOCK_UN, 10, 20)
    assert smb.recvSMB(waiting)["Status"] == STATUS_SUCCESS
    assert not locks_locally(descriptor, 20, 10)

    # The local program waits.
    thread = threading.Thread(target=fcntl.lockf, args=(descriptor, fcntl.LOCK_EX, 10, 20), daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive(), "a local program does not wait for a client's lock"
    smb.close(tree, file)
    thread.join(PATIENCE)
    assert not thread.is_alive(), "a lock outlives its handle"


def oplock():
    """Checks that a local open waits until the client has written back its cached data."""
    file = opened("oplock", SMB2_OPLOCK_LEVEL_BATCH)
    read = []

    def reader():
        with open(os.path.join(directory, "oplock"), "rb") as stream:
            read.append(stream.read())

    thread = threading.Thread(target=reader, daemon=True)
    thread.start()
    packet = smb.recvSMB()
    # impacket handles the break as a response with a CreditCharge of 0, and sets the next MessageId back by one.
    smb._Connection["SequenceWindow"] += 1
    assert packet["Command"] == SMB2_OPLOCK_BREAK, packet["Command"]
    told = SMB2OplockBreakNotification(packet["Data"])
    assert told["OplockLevel"] == SMB2_OPLOCK_LEVEL_NONE, told["OplockLevel"]
    smb.write(tree, file, WRITTEN, 0, len(WRITTEN))
    assert thread.is_alive(), "a local program does not wait for the client"
    acknowledgment = SMB2OplockBreakAcknowledgment()
    acknowledgment["OplockLevel"], acknowledgment["FileID"] = SMB2_OPLOCK_LEVEL_NONE, file
    assert smb.recvSMB(send(SMB2_OPLOCK_BREAK, acknowledgment))["Status"] == STATUS_SUCCESS
    thread.join(PATIENCE)
    assert read == [WRITTEN], read
    smb.close(tree, file)


{"locks": locks, "oplock": oplock}[what]()
connection.logoff()
connection.close()

"""alice watches a share in which bob and local programs create files.

She must not be notified of files in a directory that she may not list. Arguments: the share, its directory, bob's name,
password and uid.
"""

import os
import sys
import time

from connection import READ, WRITE, connect, create, disconnect
from smbprotocol.change_notify import ChangeNotifyFlags, CompletionFilter, FileSystemWatcher
from smbprotocol.open import CreateDisposition, CreateOptions, DirectoryAccessMask

share, directory, bob, password, uid = sys.argv[1:]
NAMES = CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME | CompletionFilter.FILE_NOTIFY_CHANGE_DIR_NAME
DIRECTORY = CreateOptions.FILE_DIRECTORY_FILE
# Timeout in seconds.
PATIENCE = 60


def path(*names):
    """Returns the path of a file of the share for local programs."""
    return os.path.join(directory, *names)


def make_locally(name, mode):
    """Creates a directory that belongs to bob."""
    os.mkdir(path(name))
    os.chown(path(name), int(uid), -1)
    os.chmod(path(name), mode)


def make(tree, name):
    """Creates a file through a tree connect."""
    create(tree, name, WRITE, CreateDisposition.FILE_CREATE).close()


make_locally("bobs", 0o700)
make_locally("open", 0o755)
alice, other = connect(share), connect(share, person=(bob, password))
root = create(alice, "", DirectoryAccessMask.GENERIC_READ, options=DIRECTORY)
told = []


def wait_for(last):
    """Watches the share until the server notifies of the name `last`."""
    end = time.monotonic() + PATIENCE
    while last not in told:
        watcher = FileSystemWatcher(root)
        watcher.start(NAMES, flags=ChangeNotifyFlags.SMB2_WATCH_TREE)
        while not watcher.response_event.wait(0.2):
            if time.monotonic() > end:
                sys.exit(f"{last!r} is not told, only {told}")
            # The server watches subdirectories for local changes later than the root, so the change is repeated.
            if last.startswith("open\\local"):
                os.close(os.open(path("open", last[5:]), os.O_CREAT | os.O_WRONLY))
                os.unlink(path("open", last[5:]))
        told.extend(action["file_name"].get_value() for action in watcher.result)


def begin():
    """Starts the watch and receives its first notification."""
    watcher = FileSystemWatcher(root)
    watcher.start(NAMES, flags=ChangeNotifyFlags.SMB2_WATCH_TREE)
    make(other, "begin")
    watcher.response_event.wait(PATIENCE)
    told.extend(action["file_name"].get_value() for action in watcher.result)


begin()
make(other, "bobs\\dismissal of alice.doc")
make(other, "open\\notice")
wait_for("open\\notice")
wait_for("open\\local probe")
for name in ("bobs", "open"):
    with open(path(name, "local dismissal.doc"), "w", encoding="ascii"):
        pass
wait_for("open\\local dismissal.doc")
secrets = [name for name in told if name.startswith("bobs\\")]
if secrets:
    sys.exit(f"alice may not list bobs and is told of {secrets}")
root.close()
disconnect(other)
disconnect(alice)

"""smbprotocol: random operations on files that other clients use at the same time. Arguments: seed, seconds."""

import random
import sys
import time

from connection import DELETE, READ, WRITE, connect, create
from smbprotocol.exceptions import (
    AccessDenied,
    DeletePending,
    EndOfFile,
    ObjectNameCollision,
    ObjectNameNotFound,
    SharingViolation,
    SMBResponseException,
)
from smbprotocol.open import CreateDisposition, CreateOptions

EXPECTED = (AccessDenied, DeletePending, EndOfFile, ObjectNameCollision, ObjectNameNotFound, SharingViolation)
FILE_LOCK_CONFLICT = 0xC0000054
NAMES = [r"hammer\a", r"hammer\b", r"hammer\c", r"hammer\d"]

dice = random.Random(int(sys.argv[1]))
end = time.monotonic() + float(sys.argv[2])


def step(tree, held):
    """Performs one random operation."""
    choice = dice.random()
    if choice < 0.3 and len(held) < 5:
        disposition = dice.choice([CreateDisposition.FILE_OPEN_IF, CreateDisposition.FILE_OVERWRITE_IF])
        held.append(create(tree, dice.choice(NAMES), READ | WRITE, disposition))
    elif choice < 0.5 and held:
        dice.choice(held).write(b"x" * 5000, dice.randrange(100_000))
    elif choice < 0.7 and held:
        dice.choice(held).read(dice.randrange(100_000), 5000)
    elif choice < 0.9 and held:
        held.pop(dice.randrange(len(held))).close()
    elif choice < 0.95:
        create(tree, dice.choice(NAMES), DELETE, options=CreateOptions.FILE_DELETE_ON_CLOSE).close()


dialect = dice.choice(["2.1", "3.0", "3.1.1"])
tree, held = connect(dialect=dialect), []
while time.monotonic() < end:
    try:
        step(tree, held)
    except EXPECTED:
        pass
    except SMBResponseException as refused:
        if refused.status != FILE_LOCK_CONFLICT:
            raise
    if dice.random() < 0.01:
        # The connection is lost without a logoff, while handles are open.
        tree.session.connection.transport.close()
        tree, held = connect(dialect=dialect), []

"""Many clients write and read until the caller sends a line. Each has a connection, a session and an open file of its
own from the beginning to the end. The argument is their number."""

import sys
import threading

from connection import READ, WRITE, connect, create, disconnect, pause
from smbprotocol.open import CreateDisposition

clients, failures, stop = [], [], threading.Event()
rounds = [0] * int(sys.argv[1])


def work(number, file):
    try:
        while not stop.is_set():
            text = f"{number}: {rounds[number]}".encode()
            file.write(text, 0)
            assert file.read(0, len(text)) == text
            rounds[number] += 1
    except BaseException as failure:  # pylint: disable=broad-except
        failures.append((number, repr(failure)))


for number in range(len(rounds)):
    tree = connect()
    clients.append((tree, create(tree, f"active-{number}", READ | WRITE, CreateDisposition.FILE_OVERWRITE_IF)))
threads = [threading.Thread(target=work, args=(number, file)) for number, (_, file) in enumerate(clients)]
for thread in threads:
    thread.start()
pause("ready")
stop.set()
for thread in threads:
    thread.join()
assert not failures, failures
assert min(rounds) > 0, rounds
for tree, file in clients:
    file.close()
    disconnect(tree)

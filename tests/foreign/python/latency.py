"""Prints how long requests on the share `files` take while other requests of three clients wait on the share `other`, or
the one of the argument."""

import statistics
import sys
import threading
import time

from connection import READ, WRITE, connect, create, disconnect, pause
from smbprotocol.open import CreateDisposition

tree = connect()
create(tree, "latency", READ | WRITE, CreateDisposition.FILE_OVERWRITE_IF).close()
waiting = [connect(*sys.argv[1:] or ["other"]) for _ in range(3)]
pause("ready")
for hung in waiting:
    threading.Thread(target=create, args=(hung, "there"), daemon=True).start()
times = []
for _ in range(500):
    begin = time.monotonic()
    file = create(tree, "latency")
    file.close()
    times.append((time.monotonic() - begin) * 1000)
print(f"    open and close: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms", file=sys.stderr)
pause("measured")
disconnect(tree)

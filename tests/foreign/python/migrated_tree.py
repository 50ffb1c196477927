"""A tree with Windows ACLs and streams, to compare what servers show of it, and what is on disk.

`make SHARE COUNT SIDS...` creates COUNT files, a hundred in a directory, each with content and an ACL for some of SIDS.
Every third has a stream, and one file of each directory has two.
`change SHARE COUNT SIDS...` changes contents, ACLs and streams of these files, deletes some, and creates others, of
which some inherit their ACL.
`show SHARE` prints for each file and directory its descriptor, the names of its streams and their content.
`disk DIRECTORY` prints for each file and directory its owner, mode, time of the last write, content and all extended
attributes.
"""

import os
import random
import struct
import sys

from connection import connect, disconnect
from security import (
    ALLOW,
    DENY,
    EVERYONE,
    PROTECTED,
    READ_DATA,
    SELF_RELATIVE,
    WRITE_DATA,
    ask,
    descriptor,
    opened,
    send,
    sid,
    tell,
)
from smbprotocol.exceptions import NoMoreFiles
from smbprotocol.file_info import FileInformationClass
from smbprotocol.open import CreateDisposition, CreateOptions, SMB2QueryInfoRequest, SMB2QueryInfoResponse

ALL, CHANGE, READ = 0x1F01FF, 0x1301BF, 0x1200A9
INHERITED_BY_ALL = 0x3
IN_A_DIRECTORY = 100
DELETE, READ_ATTRIBUTES = 0x10000, 0x80
# [MS-SMB2] 2.2.37 and [MS-FSCC] 2.4.
FILE, STREAM_INFORMATION = 1, 22
# Longer than any list of streams here.
STREAMS = 4096


def path(number):
    return f"d{number // IN_A_DIRECTORY}\\f{number}"


def names(count):
    """Returns the paths of the files, each directory before its files."""
    for number in range(count):
        if number % IN_A_DIRECTORY == 0:
            yield f"d{number // IN_A_DIRECTORY}", True
        yield path(number), False


def streams(name):
    number = int(name.rsplit("f", 1)[1])
    found = [name, f"{name}:notes"] if number % 3 == 0 else [name]
    return found + [f"{name}:Zone.Identifier"] if number % IN_A_DIRECTORY == 9 else found


def acl(dice, people, directory):
    flags = INHERITED_BY_ALL if directory else 0
    entries = [(ALLOW, flags, ALL, people[0])]
    for who in dice.sample(people, min(len(people), dice.choice([1, 3, 12]))):
        entries.append((dice.choice([ALLOW, ALLOW, DENY]), flags, dice.choice([CHANGE, READ, WRITE_DATA]), who))
    entries.append((ALLOW, flags, READ, EVERYONE))
    # Windows and smbcacls expect denials first.
    entries.sort(key=lambda entry: entry[0] == ALLOW)
    return descriptor(dice.choice([0, PROTECTED]), entries)


def write(tree, name, content, disposition=CreateDisposition.FILE_OPEN_IF):
    handle = opened(tree, name, ALL, disposition)
    handle.write(content, 0)
    handle.close()


def make(tree, count, people):
    for name, directory in names(count):
        handle = opened(tree, name, ALL, CreateDisposition.FILE_CREATE, directory)
        handle.close()
        for stream in [] if directory else streams(name):
            write(tree, stream, f"content of {stream}\n".encode() * 10)
        tell(tree, name, acl(random.Random(name), people, directory))


def change(tree, count, people):
    """Changes a part of the files, selected by the last digits of their numbers. A file changes in one way only."""
    for number in range(count):
        name, dice = path(number), random.Random(f"changed {number}")
        if number % 100 == 11:
            write(tree, name, b"changed", CreateDisposition.FILE_OVERWRITE)
        elif number % 10 == 1:
            write(tree, name, b"changed " * dice.randrange(1, 900))
        elif number % 10 == 2:
            tell(tree, name, acl(dice, people, False))
        elif number % 10 == 3:
            write(tree, f"{name}:notes", b"changed notes " * dice.randrange(1, 100), CreateDisposition.FILE_OVERWRITE_IF)
            write(tree, f"{name}:added", b"added")
        elif number % 100 == 9:
            remove(tree, f"{name}:Zone.Identifier")
        elif number % 100 == 15:
            remove(tree, name)
    for name in ["new", "new\\inner"]:
        opened(tree, name, ALL, CreateDisposition.FILE_CREATE, True).close()
        if name == "new":
            tell(tree, name, acl(random.Random(name), people, True))
    for number in range(count // 50):
        name = ["new\\", "new\\inner\\"][number % 2] + f"n{number}"
        write(tree, name, f"content of {name}".encode(), CreateDisposition.FILE_CREATE)
        if number % 3 == 0:
            write(tree, f"{name}:notes", f"notes of {name}".encode())
        if number % 4 == 0:
            tell(tree, name, acl(random.Random(name), people, False))


def remove(tree, name):
    opened(tree, name, DELETE, options=CreateOptions.FILE_DELETE_ON_CLOSE).close()


def listed(tree, directory=""):
    """Returns the paths below a directory with whether each is a directory, in the order of their names."""
    handle = opened(tree, directory, READ_DATA | READ_ATTRIBUTES, directory=True)
    found = []
    try:
        while True:
            for entry in handle.query_directory("*", FileInformationClass.FILE_DIRECTORY_INFORMATION):
                name = entry["file_name"].get_value().decode("utf-16-le")
                is_directory = bool(entry["file_attributes"].get_value() & 0x10)
                if name not in (".", ".."):
                    found.append((f"{directory}\\{name}".lstrip("\\"), is_directory))
    except NoMoreFiles:
        handle.close()
    for name, is_directory in sorted(found):
        yield name, is_directory
        if is_directory:
            yield from listed(tree, name)


def stream_names(tree, name):
    """Returns the streams that the server lists, other than the unnamed one."""
    handle = opened(tree, name, READ_ATTRIBUTES)
    query = SMB2QueryInfoRequest()
    query["info_type"] = FILE
    query["file_info_class"] = STREAM_INFORMATION
    query["output_buffer_length"] = STREAMS
    query["file_id"] = handle.file_id
    response = SMB2QueryInfoResponse()
    response.unpack(send(handle, query)["data"].get_value())
    data, at, found = response["buffer"].get_value(), 0, []
    handle.close()
    while data:
        step, length, size = struct.unpack_from("<IIQ", data, at)
        found.append((data[at + 24 : at + 24 + length].decode("utf-16-le").removesuffix(":$DATA"), size))
        at += step
        if step == 0:
            break
    return sorted(entry for entry in found if entry[0] != ":")


def shown(tree, name, directory):
    control, owner, group, entries = ask(tree, name)
    lines = [f"{kind} {flags:#x} {mask:#x} {who.hex()}" for kind, flags, mask, who in entries or []]
    text = f"{control & ~SELF_RELATIVE:#x} {owner.hex()} {group.hex()} {lines}"
    if directory:
        return text
    listing = stream_names(tree, name)
    for stream in [name] + [name + stream for stream, _ in listing]:
        handle = opened(tree, stream, READ_DATA)
        text += f" {stream}={handle.read(0, 65536) if handle.end_of_file else b''!r}"
        handle.close()
    return f"{text} {listing}"


def on_disk(path):
    """Returns what a migration must preserve. The time of the share's root is not part of it: clients create in it."""
    status = os.lstat(path)
    text = f"{status.st_uid}:{status.st_gid} {status.st_mode:o} {status.st_mtime_ns if path != share else ''}"
    for name in sorted(os.listxattr(path)):
        text += f" {name}={os.getxattr(path, name).hex()}"
    if not os.path.isdir(path):
        with open(path, "rb") as file:
            text += f" {file.read()!r}"
    return text


what, share, *rest = sys.argv[1:]
if what == "disk":
    for folder, _, files in os.walk(share):
        for entry in [folder] + [os.path.join(folder, name) for name in files]:
            print(os.path.relpath(entry, share), on_disk(entry))
    sys.exit()
tree = connect(share)
people = [sid(*map(int, text.split("-")[2:])) for text in rest[1:]]
if what == "make":
    make(tree, int(rest[0]), people)
elif what == "change":
    change(tree, int(rest[0]), people)
else:
    for name, directory in listed(tree):
        print(name, shown(tree, name, directory))
disconnect(tree)

"""A Mac that backs up to the share `backups` as backupd does: a bundle of bands of 8 MiB, each with a full sync.

Argument `first`: creates the bundle and locks it, then writes bands until the server is killed; after the next line of
standard input it connects again, checks each band that was synced, and writes the rest. Argument `second`: a Mac that
finds the bundle locked, and then takes it over. Argument `full`: writes bands until the disk is full, and once more
after the server was killed and the oldest band was removed.
"""

import struct
import sys
import time

from connection import READ, WRITE, connect, create_directory, delete, pause
from smbprotocol.create_contexts import SMB2CreateContextRequest
from smbprotocol.exceptions import DiskFull, SharingViolation
from smbprotocol.file_info import InfoType
from smbprotocol.open import (
    CreateDisposition,
    DirectoryAccessMask,
    FileAttributes,
    ImpersonationLevel,
    Open,
    ShareAccess,
    SMB2FlushRequest,
    SMB2QueryInfoRequest,
    SMB2QueryInfoResponse,
)

BAND, PIECE, BANDS = 8 << 20, 1 << 20, 5
# `fruit:time machine max size` of the share.
SIZE = 48 << 20
BUNDLE = "mac.sparsebundle"
NO_ONE = 0
SHARE_READ = ShareAccess.FILE_SHARE_READ
FULL_SYNC, SUPPORTS_FULL_SYNC = 0xFFFF, 4


def open_with(tree, name, access, disposition, share, contexts=None):
    handle = Open(tree, name)
    attributes = FileAttributes.FILE_ATTRIBUTE_NORMAL
    answers = handle.create(ImpersonationLevel.Impersonation, access, attributes, share, disposition, 0, contexts)
    return handle, answers


def mount():
    """Connects and returns the tree, after it was checked that the volume supports full syncs."""
    tree = connect("backups")
    context = SMB2CreateContextRequest()
    context["buffer_name"] = b"AAPL"
    context["buffer_data"] = struct.pack("<IIQQ", 1, 0, 7, 7)
    access = DirectoryAccessMask.GENERIC_READ
    root, answers = open_with(tree, "", access, CreateDisposition.FILE_OPEN, 7, [context])
    # The command, a reserved field, the parts, the server's capabilities, and those of the volume.
    volume = struct.unpack_from("<IIQQQ", answers[0])[4]
    assert volume & SUPPORTS_FULL_SYNC, f"the capabilities of the volume are {volume:x}"
    return tree, root


def lock(tree):
    """Opens the file by which a Mac locks the bundle."""
    return open_with(tree, rf"{BUNDLE}\token", READ | WRITE, CreateDisposition.FILE_OPEN_IF, NO_ONE)[0]


def content(band, piece):
    return struct.pack("<II", band, piece) * (PIECE // 8)


def put(tree, name, pieces):
    handle, _ = open_with(tree, name, READ | WRITE, CreateDisposition.FILE_OVERWRITE_IF, SHARE_READ)
    try:
        for at, piece in enumerate(pieces):
            handle.write(piece, at * PIECE)
        flush = SMB2FlushRequest()
        flush["reserved1"] = FULL_SYNC
        flush["file_id"] = handle.file_id
        session = tree.session
        session.connection.receive(session.connection.send(flush, session.session_id, tree.tree_connect_id))
    finally:
        handle.close()


def write_bands(tree, numbers):
    for band in numbers:
        put(tree, rf"{BUNDLE}\bands\{band:x}", (content(band, piece) for piece in range(BAND // PIECE)))
        yield band


def check_band(tree, band):
    handle, _ = open_with(tree, rf"{BUNDLE}\bands\{band:x}", READ, CreateDisposition.FILE_OPEN, SHARE_READ)
    assert handle.end_of_file == BAND, f"band {band} has {handle.end_of_file} bytes"
    for piece in range(BAND // PIECE):
        assert handle.read(piece * PIECE, PIECE) == content(band, piece), f"band {band} differs"
    handle.close()


def free_space(root):
    """Returns the size and the free space of the volume in bytes, by FileFsFullSizeInformation."""
    tree = root.tree_connect
    request = SMB2QueryInfoRequest()
    request["info_type"] = InfoType.SMB2_0_INFO_FILESYSTEM
    request["file_info_class"] = 7
    request["output_buffer_length"] = 32
    request["file_id"] = root.file_id
    sent = tree.session.connection.send(request, tree.session.session_id, tree.tree_connect_id)
    response = SMB2QueryInfoResponse()
    response.unpack(tree.session.connection.receive(sent)["data"].get_value())
    total, free, _, sectors, sector = struct.unpack("<QQQII", response["buffer"].get_value())
    return total * sectors * sector, free * sectors * sector


def expect_space(root, bands):
    """Waits until the free space is right. The server counts the bands at most every ten seconds."""
    expected = (SIZE, max(SIZE - bands * BAND, 0))
    for _ in range(60):
        found = free_space(root)
        if found == expected:
            return
        time.sleep(1)
    raise AssertionError(f"the size and the free space are {found}, expected {expected}")


def first():
    tree, root = mount()
    for directory in [BUNDLE, rf"{BUNDLE}\bands"]:
        create_directory(tree, directory).close()
    description = f"<plist><dict><key>band-size</key>\n\t<integer>{BAND}</integer></dict></plist>"
    put(tree, rf"{BUNDLE}\Info.plist", [description.encode()])
    lock(tree)
    synced = list(write_bands(tree, range(BANDS)))
    expect_space(root, BANDS)
    pause("synced")
    try:
        # The server is killed meanwhile.
        while True:
            for _ in write_bands(tree, range(BANDS, BANDS + 1)):
                pass
    except Exception as error:
        print(f"the connection was lost: {error}", file=sys.stderr)
    pause("lost")
    tree, root = mount()
    lock(tree)
    for band in synced:
        check_band(tree, band)
    for band in write_bands(tree, range(BANDS, BANDS + 3)):
        check_band(tree, band)
    # There are more bands than the size permits.
    expect_space(root, BANDS + 3)
    pause("written")


def second():
    tree, _ = mount()
    try:
        lock(tree)
        raise AssertionError("the bundle is not locked")
    except SharingViolation:
        pause("locked")
    lock(tree)
    for band in range(BANDS + 3):
        check_band(tree, band)


def fill(tree, band):
    """Writes bands from the number `band` on until the disk is full, and returns the number of the one that failed."""
    while True:
        try:
            for _ in write_bands(tree, [band]):
                pass
        except DiskFull:
            return band
        band += 1


def full():
    tree, root = mount()
    for directory in [BUNDLE, rf"{BUNDLE}\bands"]:
        create_directory(tree, directory).close()
    end = fill(tree, 0)
    assert end > 2, f"the disk is full after {end} bands"
    for band in range(end):
        check_band(tree, band)
    _, free = free_space(root)
    assert free < BAND, f"{free} bytes are free on a full disk"
    pause("full")
    tree, root = mount()
    for band in range(end):
        check_band(tree, band)
    # A Mac removes what it could not write, and the oldest backup.
    for band in [end, 0]:
        delete(tree, rf"{BUNDLE}\bands\{band:x}")
    assert fill(tree, end) > end, "no band was written after one was removed"
    for band in range(1, end + 1):
        check_band(tree, band)


{"first": first, "second": second, "full": full}[sys.argv[1]]()

"""Asks for a name by LLMNR (RFC 4795) and prints each address in the answers on a line of its own.

Arguments: the version of IP, the interface, the name, and the type of the records (A, AAAA, ANY or PTR). With a fifth
argument, the query is sent to this address instead of the multicast group.
"""

import ipaddress
import socket
import struct
import sys

PORT = 5355
TYPES = {"A": 1, "PTR": 12, "AAAA": 28, "ANY": 255}


def encode(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def skip_name(packet, at):
    while packet[at] not in (0, 0xC0):
        at += packet[at] + 1
    return at + (1 if packet[at] == 0 else 2)


def show(kind, data):
    if kind == 12:
        return data[1 : 1 + data[0]].decode()
    return str(ipaddress.ip_address(data))


def main():
    version, interface, name, kind = sys.argv[1:5]
    to = sys.argv[5] if len(sys.argv) > 5 else {"4": "224.0.0.252", "6": "ff02::1:3"}[version]
    family = socket.AF_INET if version == "4" else socket.AF_INET6
    client = socket.socket(family, socket.SOCK_DGRAM)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    client.settimeout(2)
    index = socket.if_nametoindex(interface)
    question = encode(name) + struct.pack(">HH", TYPES[kind], 1)
    query = struct.pack(">HHHHHH", 0x5EED, 0, 1, 0, 0, 0) + question
    client.sendto(query, (to, PORT) if version == "4" else (to, PORT, 0, index))
    packet, sender = client.recvfrom(512)
    identifier, flags, questions, answers, _, _ = struct.unpack(">HHHHHH", packet[:12])
    if (identifier, questions) != (0x5EED, 1) or sender[1] != PORT:
        sys.exit(f"not an answer: {packet!r} from {sender}")
    if flags != 0x8000:
        sys.exit(f"flags {flags:x}")
    at = skip_name(packet, 12) + 4
    for _ in range(answers):
        at = skip_name(packet, at)
        kind, _, _, length = struct.unpack(">HHIH", packet[at : at + 10])
        print(show(kind, packet[at + 10 : at + 10 + length]))
        at += 10 + length


main()

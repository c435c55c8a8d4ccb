"""Writes TensorBoard event files the way the libraries do, without any library:
events.py DIRECTORY COUNT [--first STEP] [--file NAME] [--child] [--go PATH] [--again]
appends COUNT scalars "loss" to DIRECTORY/NAME (by default a new file named after time, host and process) at once.
--child: a separate process writes and exits; --go: waits for PATH, with the file open, before it exits;
--again: then writes as many again; --fail: exits with code 3 on attempt 0."""
import argparse
import os
import socket
import struct
import sys
import time

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(body):
    size = struct.pack("<Q", len(body))
    return size + masked_crc(size) + body + masked_crc(body)


def field(number, body):
    return bytes([number << 3 | 2, len(body)]) + body


def scalar(step, value):
    point = field(1, b"loss") + b"\x15" + struct.pack("<f", value)
    return record(b"\x09" + struct.pack("<d", time.time()) + b"\x10" + bytes([step]) + field(5, field(1, point)))


def write(path, steps):
    file = open(path, "ab", buffering=0)
    if file.tell() == 0:
        file.write(record(b"\x09" + struct.pack("<d", time.time()) + field(3, b"brain.Event:2")))
    file.write(b"".join(scalar(step, 1 / (step + 1)) for step in steps))
    return file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--file")
    parser.add_argument("--go")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--fail", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.directory, exist_ok=True)
    if args.child and (child := os.fork()):
        os.waitpid(child, 0)
        sys.exit(0)
    name = args.file or f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
    path = os.path.join(args.directory, name)
    file = write(path, range(args.first, args.first + args.count))
    while args.go and not os.path.exists(args.go):
        time.sleep(0.02)
    if args.again:
        write(path, range(args.first + args.count, args.first + 2 * args.count))
    file.close()
    if args.fail and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
        sys.exit(3)


if __name__ == "__main__":
    main()

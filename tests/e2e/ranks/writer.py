"""A rank that writes reproducible bytes, so that a log can be compared exactly.

usage: writer.py LINES [--rate LINES_PER_S] [--binary] [--until FILE]
Line i of rank r on stdout: "r i crc32 padding"; --binary adds every byte value, without newlines, at the
end; stderr gets every tenth line.
"""
import argparse
import os
import sys
import time
import zlib


def line(rank, stream, number):
    body = f"{rank} {stream} {number:08d} " + "x" * (number * 7919 % 61)
    return f"{body} {zlib.crc32(body.encode()):08x}\n".encode()


def tail():
    """All byte values, a broken UTF-8 sequence, escape sequences, no newline at the end."""
    return bytes(range(256)) * 4 + b"\xff\xfe\x1b[31mred\r\0end"


def expected(rank, stream, count, binary=False):
    numbers = range(count) if stream == "o" else range(0, count, 10)
    return b"".join(line(rank, stream, i) for i in numbers) + (tail() if binary and stream == "o" else b"")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lines", type=int)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--binary", action="store_true")
    parser.add_argument("--until")
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    started = time.monotonic()
    for number in range(options.lines):
        os.write(1, line(rank, "o", number))
        if number % 10 == 0:
            os.write(2, line(rank, "e", number))
        if options.rate and number % 10 == 0:
            ahead = number / options.rate - (time.monotonic() - started)
            if ahead > 0:
                time.sleep(ahead)
    while options.until and not os.path.exists(options.until):
        time.sleep(0.02)
    if options.binary:
        sys.stdout.buffer.write(tail())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

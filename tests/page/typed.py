"""A page of docs/ as a newcomer types it: the lines of its code blocks, one after another, in a shell on a terminal.

By hand, from the root of a built tree, every line of a page whose exit code must be 0 (./dev check-bare PAGE does it on
a bare machine):
    python3 tests/page/typed.py docs/tour.md
"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

MARK = "line-is-over"
LINE_S = 120  # nothing in the tour takes that long, also on a busy machine


def blocks(text):
    """(language, body) of each code block, without the indentation of a list that it lies in."""
    for indent, language, body in re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.M | re.S):
        yield language, re.sub(f"^{indent}", "", body, flags=re.M)


def commands(block):
    """(command, what it prints) of each `$ ` line, or of each line that is a command that prints nothing of interest."""
    lines, told = block.split("\n"), []
    has_prompts = lines[0].startswith("$ ")
    while lines:
        line = lines.pop(0)
        if has_prompts and not line.startswith("$ "):
            told[-1][1].append(line)
        elif line and not line.startswith("#"):
            command = [line[2:] if has_prompts else line]
            while command[-1].endswith("\\"):
                command.append(lines.pop(0))
            if "<<EOF" in line:
                while command[-1] != "EOF":
                    command.append(lines.pop(0))
            told.append(("\n".join(command), []))
    return [(command, "\n".join(printed)) for command, printed in told]


def steps(text):
    """The commands of a page whose blocks without a language are all to be typed."""
    for language, block in blocks(text):
        if not language:
            yield from commands(block)


class Shell:
    """bash, reading commands from us and writing to a terminal of 120 columns."""

    def __init__(self, env, directory):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, stdout=slave,
                                        stderr=slave, env=env, cwd=directory)
        os.close(slave)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        os.close(self.master)

    def run(self, command):
        """(exit code, output, seconds)"""
        began = time.monotonic()
        self.process.stdin.write(f"{{ {command}\n}} < /dev/null\nprintf '\\n{MARK} %d\\n' $?\n".encode())
        self.process.stdin.flush()
        seen = b""
        while True:
            ended = re.search(rf"\r\n{MARK} (\d+)\r\n".encode(), seen)
            if ended:
                output = seen[:ended.start()].decode().replace("\r\n", "\n")
                return int(ended.group(1)), output, time.monotonic() - began
            if not select.select([self.master], [], [], LINE_S)[0]:
                raise AssertionError(f"{command!r} does not end; so far: {seen.decode()}")
            seen += os.read(self.master, 65536)


def main(page):
    with open(page) as file:
        text = file.read()
    shell = Shell(dict(os.environ, TERM="xterm", PS1=""), os.getcwd())
    for command, _ in steps(text):
        if command.startswith("./dev "):
            continue  # was typed before
        code, output, seconds = shell.run(command)
        print(f"$ {command}\n{output}\n({seconds:.2f} s)", flush=True)
        if code != 0:
            sys.exit(f"error: {page}: exit code {code} of: {command}")
    shell.close()


if __name__ == "__main__":
    main(sys.argv[1])

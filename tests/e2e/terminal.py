"""jobctl on a pseudo terminal of 80 by 24: what it writes there, and what a person sees."""
import fcntl
import os
import pty
import re
import select
import struct
import termios

from harness import wait_until


class Terminal:
    ROWS, COLUMNS = 24, 80

    def __init__(self, case, cluster, *args):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", self.ROWS, self.COLUMNS, 0, 0))
        self.slave, self.before = slave, termios.tcgetattr(slave)
        self.seen = b""
        self.process = cluster.start_jobctl(
            *args, stdin=slave, stdout=slave, stderr=slave, start_new_session=False,
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
            env={"TERM": "xterm", "COLUMNS": "", "LINES": ""})
        case.addCleanup(os.close, slave)
        case.addCleanup(os.close, self.master)

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)
        return self.seen

    def wait_for(self, text):
        wait_until(lambda: text in self.read(), lambda: f"{text!r} on the terminal, saw {self.seen[-2000:]!r}")

    def screen(self):
        """The lines that a person sees after all that was written so far, as an xterm would show them."""
        rows, row, column = [[" "] * self.COLUMNS for _ in range(self.ROWS)], 0, 0
        for text, number, letter in re.findall(r"([^\033]+)|\033\[\??([\d;]*)([A-Za-z])", self.read().decode()):
            for each in text:
                if each == "\r":
                    column = 0
                elif each == "\n":
                    row += 1
                elif row >= self.ROWS or column >= self.COLUMNS:
                    raise AssertionError(f"{each!r} is written beyond the screen, at {row + 1}, {column + 1}")
                else:
                    rows[row][column], column = each, column + 1
            if letter == "H":
                row, column = [int(at) - 1 for at in number.split(";")] if number else (0, 0)
            elif letter == "A":
                row = max(0, row - int(number or 1))
            elif letter in ("K", "J"):
                rows[row][column:] = [" "] * (self.COLUMNS - column)
                for below in rows[row + 1:] if letter == "J" else ():
                    below[:] = [" "] * self.COLUMNS
        return ["".join(each).rstrip() for each in rows]

    def wait_for_screen(self, condition):
        """The screen once its lines meet the condition."""
        return wait_until(lambda: (lambda lines: lines if condition(lines) else None)(self.screen()),
                          lambda: "the screen, which shows\n" + "\n".join(self.screen()))

    def type(self, keys):
        os.write(self.master, keys)

    def is_as_before(self):
        return termios.tcgetattr(self.slave) == self.before

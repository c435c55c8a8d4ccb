"""docs/tour.md: every line is run as a reader would, in a shell on a terminal, and prints what the tour says, but for
numbers; its page shows what the tour says of it. Prints how long each line took."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import browser
import harness

TOUR = os.path.join(harness.ROOT, "docs", "tour.md")
MARK = "line-is-over"
LINE_S = 120  # nothing in the tour takes that long, also on a busy machine


def steps(text):
    """(command, what it prints) of each `$ ` line; lines without it are commands that print nothing of interest."""
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        lines, commands = block.split("\n"), []
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                if commands:
                    commands[-1][1].append(line)
                elif line:
                    commands.append((line, []))
                    yield line, ""
                    commands.clear()
                continue
            command = [line[2:]]
            while command[-1].endswith("\\"):
                command.append(lines.pop(0))
            if "<<EOF" in line:
                while command[-1] != "EOF":
                    command.append(lines.pop(0))
            commands.append(("\n".join(command), []))
        for command, printed in commands:
            yield command, "\n".join(printed)


def shape(text):
    """The text without what differs from run to run: numbers with their units, names that were picked, curves."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = re.sub(r"\b[a-z]+-[a-z]+-\d+\b", "NAME", text)
    text = re.sub(r"unix:\S+", "SOCKET", text)
    text = re.sub(r"[▁▂▃▄▅▆▇█]+", "CURVE", text)
    text = re.sub(r"(?<![A-Za-z-])[-+]?\d[\d.,:]*(e[-+]?\d+)?( ?(ms|s|m|h|KB|MB|%)\b)?%?", "#", text)
    return re.sub(r"(# )+#", "#", re.sub(r"\s+", " ", text)).strip()


class Shell:
    """bash, reading commands from us and writing to a terminal of 120 columns."""

    def __init__(self, case, env):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, stdout=slave,
                                        stderr=slave, env=env, cwd=harness.ROOT)
        os.close(slave)
        case.addCleanup(os.close, self.master)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.stdin.close)

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


class Tour(browser.PageCase):
    def test_every_line_does_what_it_says(self):
        with open(TOUR) as file:
            tour = file.read().replace("/tmp/tour", self.path("tour"))
        tour = tour.replace("$PWD/build/", harness.BUILD + "/")
        env = dict(self.env, TERM="xterm", PS1="")
        shell, host = Shell(self, env), os.uname().nodename
        total = 0
        for command, printed in steps(tour):
            if command == "./dev build":
                continue
            code, output, seconds = shell.run(command)
            total += seconds
            print(f"{seconds:7.2f} s  {command.splitlines()[0]}")
            self.assertEqual(code, 0, f"{command}\n{output}")
            actual = shape(output)
            # A wrapped line is whole again; what "…" stands for may be anything.
            expected = [each for each in re.split(r"…|\n(?! )", printed.replace("vm", host)) if each.strip()]
            for each in expected:
                self.assertIn(shape(each), actual, f"{command} printed\n{output}")
            if command == "jobctl up":
                self.wait_until_its_node_is_free()
            if command.startswith("jobctl ui"):
                self.look_at_the_page(output.splitlines()[0], host)
        print(f"{total:7.2f} s  in all")

    def wait_until_its_node_is_free(self):
        """A reader types slower than the worker needs to see that nothing older runs here."""
        api = self.private().api
        service = api.service
        harness.wait_until(
            lambda: all(not node.clearing for node in
                        api.unary("ListNodes", service.ListNodesRequest(), service.ListNodesResponse).nodes),
            "a node that is free")

    def look_at_the_page(self, link, host):
        self.address = link.split("/sign-in")[0]
        context = self.open_context()
        page = context.new_page()
        page.goto(link)
        browser.expect(page.locator("main")).to_contain_text(re.compile(rf"rank [01] on {host} was killed by signal 9"))
        for tab in ("Logs", "Ranks", "Checkpoints", "Events", "Config", "Environment", "Ledger"):
            browser.expect(page.get_by_role("tab", name=tab)).to_be_visible()
        page.get_by_role("link", name="Jobs", exact=True).click()
        browser.expect(page.get_by_role("link", name="digits-4")).to_be_visible()
        page.goto(self.address + "/compare?jobs=alone-5,pair-6")
        browser.expect(page.locator("main")).to_contain_text("world size")
        browser.expect(page.locator("main")).to_contain_text("4.01088")
        page.close()


if __name__ == "__main__":
    harness.main()

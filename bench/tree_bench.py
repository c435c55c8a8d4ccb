"""What it takes to send a directory of 100,000 small files with a job: snapshots of it, its objects, and the tree on
a node, against rsync, git and tar over the same files where installed. Caches are warm on both sides."""
import json
import os
import shutil
import subprocess
import tempfile
import time

FILES, PER_DIRECTORY, CHANGED = 100_000, 100, 10


def make_tree(root):
    for number in range(FILES // PER_DIRECTORY):
        directory = os.path.join(root, f"part{number // 32:02}", f"directory{number:04}")
        os.makedirs(directory)
        for each in range(PER_DIRECTORY):
            with open(os.path.join(directory, f"file{each:03}.py"), "w", encoding="ascii") as file:
                file.write(f"# file {each} of {number}\n" * (10 + each))
    with open(os.path.join(root, ".gitignore"), "w", encoding="ascii") as file:
        file.write("__pycache__/\n*.pyc\n/build/\n.venv/\n*.egg-info\n")


def change(root, turn):
    for number in range(CHANGED):
        path = os.path.join(root, f"part{number % 31:02}", f"directory{(number % 31) * 32:04}", f"file{number:03}.py")
        with open(path, "a", encoding="ascii") as file:
            file.write(f"# turn {turn}\n")


def seconds(command, **options):
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, **options)
    return time.perf_counter() - begun


def bench_tree(table, program):
    with tempfile.TemporaryDirectory(prefix="muster-tree-bench-") as base:
        Measurement(table, program, base).run()


class Measurement:
    def __init__(self, table, program, base):
        self.table, self.program, self.base = table, program, base
        self.root, self.cache, self.store = (self.directory(name) for name in ("root", "cache", "store"))
        self.git = shutil.which("git") and os.path.join(base, "git")

    def directory(self, name):
        path = os.path.join(self.base, name)
        os.makedirs(path, exist_ok=True)
        return path

    def step(self, name, *arguments):
        done = subprocess.run([self.program, name, self.root, self.cache, *arguments], check=True, capture_output=True,
                              text=True)
        return json.loads(done.stdout)

    def git_add(self):
        if not self.git:
            return None
        return seconds(["git", "--git-dir", self.git, "--work-tree", self.root, "-c", "core.autocrlf=false", "add", "-A"],
                       cwd=self.root)

    def rsync(self):
        if not shutil.which("rsync"):
            return None
        return seconds(["rsync", "-a", "--delete", self.root + "/", self.directory("rsync")])

    def tar_out(self):
        if not shutil.which("tar"):
            return None
        return seconds(["tar", "-C", self.root, "-cf", os.path.join(self.base, "all.tar"), "."])

    def tar_in(self):
        if not shutil.which("tar"):
            return None
        return seconds(["tar", "-C", self.directory("untarred"), "-xf", os.path.join(self.base, "all.tar")])

    def copy(self):
        return seconds(["cp", "-a", os.path.join(self.base, "out"), os.path.join(self.base, "cp")])

    def compare(self, name, value, **peers):
        for peer, other in peers.items():
            self.table.row(name, "s", [value], "reported", lambda *_: True, peer.replace("_", " "),
                           [other] if other else None)

    def run(self):
        make_tree(self.root)
        time.sleep(2.5)  # else the next snapshot would read again what was written just before the first
        if self.git:
            subprocess.run(["git", "init", "-q", "--bare", self.git], check=True)
        first = self.step("snapshot")
        assert first["files"] == first["read"] == FILES + 1, first
        self.compare("tree: first snapshot, all read", first["seconds"], git_add=self.git_add(), tar_c=self.tar_out())
        self.compare("tree: objects to send, first time", self.step("pack", self.store)["seconds"],
                     rsync_to_a_directory=self.rsync())
        unchanged = self.step("snapshot")
        assert unchanged["read"] == 0 and unchanged["identity"] == first["identity"], unchanged
        self.compare("tree: unchanged", unchanged["seconds"], git_add=self.git_add(), rsync=self.rsync())
        change(self.root, 1)
        time.sleep(0.3)
        changed = self.step("snapshot")
        assert changed["read"] == CHANGED, changed
        self.compare(f"tree: {CHANGED} files changed", changed["seconds"], git_add=self.git_add(), rsync=self.rsync())
        self.step("pack", self.store)
        out = self.directory("out")
        self.compare("tree: unpacked on a node", self.step("unpack", self.store, out)["seconds"], tar_x=self.tar_in())
        self.compare("tree: copied for a job", self.step("copy", out, self.directory("copied"))["seconds"],
                     cp_a=self.copy())

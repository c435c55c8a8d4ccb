"""A rank that tries what its account and its sandbox must not allow, and prints one line per attempt: its name, and
"refused" or what it got. usage: prowler.py FACTS, a JSON file that names the targets."""
import ctypes
import json
import os
import socket
import sys

with open(sys.argv[1]) as file:
    facts = json.load(file)
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206


def read(path):
    with open(path, "rb") as file:
        return repr(file.read(20))


def connect(path, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.connect(path)
    return "connected"


def write(path):
    with open(path, "w") as file:
        file.write("x")
    return "written"


def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
    return "worked"


def make(path):
    os.mkdir(path)
    return "made"


tries = []
for path in facts["read"]:
    tries.append((f"read {path}", lambda path=path: read(path)))
for path in facts["list"]:
    tries.append((f"list {path}", lambda path=path: str(os.listdir(path) or 1 / 0)))
for path in facts["connect"]:
    tries.append((f"connect {path}", lambda path=path: connect(path)))
    tries.append((f"connect {path} as a worker", lambda path=path: connect(path, socket.SOCK_SEQPACKET)))
for path in facts["write"]:
    tries.append((f"write {path}", lambda path=path: write(path)))
for path in facts["make"]:
    tries.append((f"make {path}", lambda path=path: make(path)))
for pid in facts["pids"]:
    tries.append((f"kill {pid}", lambda pid=pid: os.kill(pid, 0) or "may"))
    tries.append((f"trace {pid}", lambda pid=pid: call(libc.ptrace, PTRACE_SEIZE, pid, None, None)))
    tries.append((f"environ {pid}", lambda pid=pid: read(f"/proc/{pid}/environ")))
    tries.append((f"root {pid}", lambda pid=pid: str(os.listdir(f"/proc/{pid}/root"))))
tries += [("setuid", lambda: os.setuid(0) or "is root"), ("setgid", lambda: os.setgid(0) or "is in root's group"),
          ("mount", lambda: call(libc.mount, b"x", b"/mnt", b"tmpfs", 0, None)),
          ("umount", lambda: call(libc.umount2, facts["state"].encode(), 2)),
          ("unshare", lambda: call(libc.unshare, 0x10000000 | 0x20000)), ("chroot", lambda: os.chroot("/") or "worked")]
for name, attempt in tries:
    try:
        result = attempt()
    except (OSError, ZeroDivisionError):
        result = "refused"
    print(f"{name}: {result}", flush=True)

# What the worker reads for the job must not be read with the worker's rights.
os.symlink(facts["secret"], os.environ["TORCHELASTIC_ERROR_FILE"])
os.symlink(facts["secrets"], os.path.join(os.environ["MUSTER_TENSORBOARD_DIR"], "more"))
step = os.path.join(os.environ["MUSTER_CHECKPOINT_DIR"], "step-1")
os.mkdir(step + ".tmp")
try:
    os.link(facts["secret"], step + ".tmp/taken")
except OSError:
    write(step + ".tmp/nothing")
os.rename(step + ".tmp", step)
print("tried", flush=True)
sys.exit(3)

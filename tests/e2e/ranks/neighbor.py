"""A rank that tries every way to reach processes of its own account by their numbers, and what they share without a
number. Prints "own", "other" or "first" (number 1, which holds its attempt's processes together), the way, and whether it
works, a line each. The same on its own child shows that each way works. usage: neighbor.py KEY PID…: the others, and the key of their shared memory."""
import ctypes
import os
import resource
import signal
import subprocess
import sys

KEY, OTHERS = int(sys.argv[1]), [int(word) for word in sys.argv[2:]]
PTRACE_SEIZE, PTRACE_DETACH, PRIO_PROCESS, PRIO_PGRP, PRIO_USER = 0x4206, 17, 0, 1, 2
SYS_PIDFD_OPEN, SYS_IOPRIO_SET = 434, 251
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p


def call(function, *arguments):
    result = function(*arguments)
    if result in (-1, None) or ctypes.c_long(result or 0).value == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read_memory(pid):
    with open(f"/proc/{pid}/maps") as file:
        start = int(next(line for line in file if " r--p " in line or " r-xp " in line).split("-")[0], 16)
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 8)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    remote = (ctypes.c_ulong * 2)(start, 8)
    return call(libc.process_vm_readv, pid, vector, one, remote, one, none)


def trace(pid):
    call(libc.ptrace, PTRACE_SEIZE, pid, None, None)
    libc.ptrace(PTRACE_DETACH, pid, None, None)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path, "rb") as file:
        return file.read(8) or 1 / 0


WAYS = {
    "signal": lambda pid: os.kill(pid, signal.SIGCONT),
    "trace": trace,
    "memory": read_memory,
    "memory by file": lambda pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)),
    "limits": lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (7, 4096)),
    "affinity": lambda pid: os.sched_setaffinity(pid, [0]),
    "scheduler": lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    "priority": lambda pid: os.setpriority(PRIO_PROCESS, pid, 7),
    "priority of its group": lambda pid: os.setpriority(PRIO_PGRP, pid, 8),
    "priority of the disk": lambda pid: call(libc.syscall, SYS_IOPRIO_SET, 1, pid, 3 << 13),
    "out of memory first": lambda pid: write(f"/proc/{pid}/oom_score_adj", "1000"),
    "environment": lambda pid: read(f"/proc/{pid}/environ"),
    "command line": lambda pid: read(f"/proc/{pid}/cmdline"),
    "descriptors": lambda pid: os.listdir(f"/proc/{pid}/fd"),
    "pidfd": lambda pid: os.close(call(libc.syscall, SYS_PIDFD_OPEN, pid, 0)),
}


def shared():
    with open("/proc/sysvipc/shm") as file:
        return [int(line.split()[1]) for line in file if line.split()[0] == str(KEY)]


def tell(whose, way, attempt):
    try:
        attempt()
        print(f"{whose} {way}: works", flush=True)
    except (OSError, ZeroDivisionError, StopIteration):
        print(f"{whose} {way}: refused", flush=True)


own = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
while not open(f"/proc/{own.pid}/cmdline", "rb").read():  # it becomes the program a moment later
    pass
for way, attempt in WAYS.items():
    tell("own", way, lambda attempt=attempt: attempt(own.pid))
    tell("first", way, lambda attempt=attempt: attempt(1))
    for other in OTHERS:
        tell("other", way, lambda attempt=attempt, other=other: attempt(other))
# Without a number: all of an account, System V memory, and the queues of a file system.
tell("other", "priority of the account", lambda: os.setpriority(PRIO_USER, os.getuid(), 9))
tell("other", "disk priority of the account", lambda: call(libc.syscall, SYS_IOPRIO_SET, 3, os.getuid(), 3 << 13))
tell("other", "shared memory by its key", lambda: call(libc.shmget, KEY, 0, 0))
tell("other", "shared memory by its number", lambda: [call(libc.shmat, number, None, 0) for number in shared() or [-1]])
tell("other", "queues", lambda: os.listdir("/dev/mqueue") and read("/dev/mqueue/" + os.listdir("/dev/mqueue")[0]))
tell("other", "cgroups", lambda: write(next(
    os.path.join(top, "cgroup.procs") for top, _, _ in os.walk("/sys/fs/cgroup") if "muster-" in top), "0"))
call(libc.shmget, KEY + 1, 4096, 0o1000 | 0o666)  # is left behind
print("saw", len([name for name in os.listdir("/proc") if name.isdigit()]), "processes", flush=True)
os.kill(-1, signal.SIGTERM)  # all that it may signal, but for itself
own.wait()
print("tried", flush=True)

"""A machine of Debian alone to install packages on: its own root in its own namespaces. It has no systemd; `start` does what
systemd would do with a unit, as far as the unit's own lines go."""
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from support import BUILD, harness, need

# Releases of Debian, the oldest first: what is built on one runs on it and on newer ones.
SUITES = ("bookworm", "trixie")
# Its first process. A plain chroot would not do: ranks get mount namespaces, which begin at their namespace's own root.
# A shell that runs children of its own also reaps those that it inherits.
INIT = """set -e
mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/run" && mount -t tmpfs tmpfs "$1/dev/shm"
for device in null zero full random urandom tty; do mount --bind /dev/$device "$1/dev/$device"; done
ip link set lo up
cd "$1" && pivot_root . . && umount -l . && cd /
exec /bin/sh -c 'echo ready; while :; do sleep 0.2; done'"""
# What running programs write wherever they run, and dpkg's own records.
NOT_OURS = re.compile(r"^/(proc|sys|dev|tmp|root|var/(tmp|cache|log)|var/lib/dpkg|var/lib/systemd/deb-systemd-[a-z-]*)(/|$)|"
                      r"^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|^/etc/\.pwd\.lock$")


class Machine:
    """A tree that is unpacked for one test and gone afterwards, with everything that runs in it."""

    def __init__(self, case, suite):
        tarball = BUILD / "packages" / f"{suite}.tar"
        here = platform.freedesktop_os_release().get("VERSION_CODENAME")
        need(here not in SUITES or SUITES.index(suite) >= SUITES.index(here), f"{suite} is older than {here}, which this is")
        need(os.geteuid() == 0 and harness.has_network_namespaces(), "a machine of namespaces needs root")
        need(shutil.which("nsenter") and shutil.which("ip"), "needs nsenter and ip")
        need(tarball.exists(), f"there is no {tarball}; ./dev check-packages makes it with mmdebstrap")
        self.root = Path(tempfile.mkdtemp(prefix="mt-machine-"))
        case.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        subprocess.run(["tar", "-xpf", tarball, "-C", self.root, "--exclude=./dev/*"], check=True)
        (self.root / "dev/shm").mkdir(exist_ok=True)
        for device in ("null", "zero", "full", "random", "urandom", "tty"):
            (self.root / "dev" / device).touch()
        self.init = subprocess.Popen(["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "sh", "-c",
                                      INIT, "init", self.root], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        case.addCleanup(self._end)
        if self.init.stdout.readline() != "ready\n":
            raise AssertionError("the machine's first process did not start")
        self.pid = next(iter(harness.children_of(self.init.pid)))
        self.daemons = {}
        # What the packages tell systemd. The test does it, by `start`, `stop` and `restart`.
        self.write("/usr/bin/systemctl", '#!/bin/sh\necho "$*" >>/var/log/systemctl\n'
                   'case "$*" in *is-enabled*) echo enabled ;; *is-active*) exit 3 ;; esac\n')
        (self.root / "usr/bin/systemctl").chmod(0o755)
        self.run("mkdir", "-p", "/run/systemd/system")

    def _end(self):
        self.init.kill()
        self.init.communicate()

    def run(self, *command, check=True, timeout=60):
        """Runs a command in the machine; CompletedProcess with text output, stdout and stderr together."""
        done = subprocess.run(["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--ipc", "--root", "--wd",
                               *map(str, command)], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                               "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-4000:]}")
        return done

    def install(self, *packages):
        """dpkg --install of files that lie outside."""
        for each in packages:
            shutil.copy(each, self.root / "var/tmp")
        done = self.run("dpkg", "--install", *(f"/var/tmp/{each.name}" for each in packages))
        for each in packages:
            (self.root / "var/tmp" / each.name).unlink()
        return done.stdout

    def told_systemd(self):
        """The arguments of systemctl since the last look."""
        path = self.root / "var/log/systemctl"
        told = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return told

    def files(self):
        """{path: target of a link, size of a file, or kind} of all that a package may have left."""
        found = {}
        listed = self.run("find", "/", "-xdev", "-printf", "%p\\t%y%m %u\\t%s\\n").stdout
        for path, kind, size in (line.split("\t") for line in listed.splitlines()):
            if not NOT_OURS.match(path):
                found[path] = (kind, size if kind.startswith("f") else "")
        for path in ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow"):
            found[path] = self.read(path)
        return found

    def read(self, path):
        """The text of a file of the machine."""
        return (self.root / path.lstrip("/")).read_text()

    def write(self, path, text):
        """Replaces the contents of a file of the machine."""
        (self.root / path.lstrip("/")).write_text(text)

    def unit(self, name):
        """{setting: its values} of an installed unit's [Service]."""
        text = self.read(f"/usr/lib/systemd/system/{name}.service").replace("\\\n", " ")
        settings = {}
        for line in text.split("[Service]")[1].split("[Install]")[0].splitlines():
            if line and not line.startswith("#"):
                key, value = line.split("=", 1)
                settings.setdefault(key, []).append(value)
        return settings

    def start(self, name):
        """Starts a unit's daemon."""
        unit = self.unit(name)
        user = unit["User"][0]
        environment = dict(value.split("=", 1) for value in unit.get("Environment", ()))
        for line in self.read(unit["EnvironmentFile"][0]).splitlines():
            if line and not line.startswith("#"):
                environment.update([line.split("=", 1)])
        for kind, top in (("State", "/var/lib"), ("Runtime", "/run")):
            path = f"{top}/{unit[f'{kind}Directory'][0]}"
            self.run("install", "-d", "-o", user, "-g", user, "-m", unit[f"{kind}DirectoryMode"][0], path)
            environment[f"{kind.upper()}_DIRECTORY"] = path
        argv = []
        for word in unit["ExecStart"][0].split():
            if re.fullmatch(r"\$\w+", word):  # unlike ${…}, as many words as it has
                argv += shlex.split(environment.get(word[1:], ""))
            else:
                argv.append(re.sub(r"\$\{(\w+)\}", lambda found: environment[found.group(1)], word))
        identity = ["--reuid", user, "--regid", user, "--init-groups"]
        if unit.get("NoNewPrivileges") == ["yes"]:
            identity.append("--no-new-privs")
        if "CapabilityBoundingSet" in unit:
            kept = [each[4:].lower() for each in unit["CapabilityBoundingSet"][0].split()]
            identity += ["--bounding-set", ",".join(["-all", *(f"+{each}" for each in kept)])]
        line = shlex.join(["setpriv", *identity, "env", *(f"{key}={value}" for key, value in environment.items()), *argv])
        self.daemons[name] = int(self.run("sh", "-c", f"setsid {line} >>/var/log/{name}.log 2>&1 & echo $!").stdout)

    def stop(self, name):
        """Stops a unit's daemon as systemd does with KillMode=process: that process alone."""
        self.run("sh", "-c", f"kill -TERM {self.daemons[name]}")
        harness.wait_until(lambda: not self.alive(self.daemons[name]), f"{name} ends on SIGTERM")

    def restart(self, name):
        """What a package's postinst has systemd do."""
        self.stop(name)
        self.start(name)

    def alive(self, pid):
        """Whether a process of the machine runs."""
        state = self.run("sh", "-c", f"cat /proc/{pid}/stat 2>/dev/null || true").stdout
        return bool(state) and state.rsplit(")", 1)[1].split()[0] != "Z"

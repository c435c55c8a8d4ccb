"""What is packaged: the files that `cmake --install` installs, their version and the time stamp of them all."""
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = ("jobctl", "muster-coordinator", "muster-worker")
HELPERS = ("muster-shim", "muster-rendezvous", "muster-unwind")


class Problem(Exception):
    """What is wrong, and its fix."""


def run(*command, **options):
    """The standard output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          **options)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise Problem(f"{command[0]} failed with exit code {done.returncode}: {said}")
    return done.stdout


class Release:
    """One build tree's programs, installed below `tree` as they would be below /usr."""

    def __init__(self, build, folder, programs=None):
        self.build, self.folder = build.resolve(), folder
        self.staged = folder / "staged"
        self.tree = self.staged / "usr"
        self.epoch = commit_time()
        self._install()
        if programs:
            self._replace(programs)
        self.version = self._version()
        self.architecture = os.uname().machine

    def program(self, name):
        """The path of one of COMMANDS or HELPERS."""
        return self.tree / ("bin" if name in COMMANDS else "libexec/muster") / name

    def programs(self):
        """The paths of all programs."""
        return [self.program(name) for name in COMMANDS + HELPERS]

    def has(self, component):
        """Whether the build tree has a CMake component's files: the SDK is an option."""
        if component != "trainer":
            return True
        # A build tree without the SDK may still have an older one's library.
        made = "MUSTER_WITH_TRAINER:BOOL=ON" in (self.build / "CMakeCache.txt").read_text()
        return made and (self.build / "trainer" / "libmuster_trainer.a").exists()

    def install(self, component, staged):
        """Installs a component below staged/usr, stripped."""
        run("cmake", "--install", self.build, "--prefix", "/usr", "--component", component, "--strip",
            env={**os.environ, "DESTDIR": str(staged)})

    def _install(self):
        missing = [name for name in COMMANDS + HELPERS if not (self.build / "bin" / name).exists()]
        if missing:
            raise Problem(f"{self.build}/bin lacks {', '.join(missing)}; fix: ./dev build {' '.join(missing)}")
        self.install("muster", self.staged)

    def _replace(self, programs):
        for path in self.programs():
            other = programs / path.name
            if other.exists():
                shutil.copy2(other, path)
                run("strip", path)

    def _version(self):
        """The version that all programs report; packages of different versions would be a mistake."""
        told = {path.name: run(path, "--version") for path in self.programs() if path.name in COMMANDS}
        found = {re.search(r"\d+\.\d+\.\d+\S*", text).group() for text in told.values()}
        if len(found) != 1:
            raise Problem(f"the programs have different versions: {told}; fix: build all of them")
        return found.pop()


def commit_time():
    """Seconds since 1970 that every file of every package bears."""
    told = os.environ.get("SOURCE_DATE_EPOCH", "")
    if told:
        if not told.isdigit():
            raise Problem(f"SOURCE_DATE_EPOCH={told} is not a number of seconds since 1970; fix: unset it")
        return int(told)
    try:
        return int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    except (OSError, Problem) as problem:
        raise Problem(f"the time of the last commit cannot be read ({problem}); fix: set SOURCE_DATE_EPOCH") from None


def commit():
    """The commit that is packaged, with "-dirty" where files differ from it; empty outside a repository."""
    try:
        return run("git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*").strip()
    except (OSError, Problem):
        return ""

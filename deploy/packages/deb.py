"""The Debian packages: who gets which installed file, and what makes a package of it. docs/install.md describes them."""
import email.utils
import gzip
import hashlib
import os
import re
import shutil
import stat
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import files_list
import manual
from release import ROOT, Problem, run

TEMPLATES = Path(__file__).resolve().parent / "debian"
# Who builds packages is who answers for them: the variables that Debian's own tools read.
MAINTAINER = f"{os.environ.get('DEBFULLNAME', 'Muster')} <{os.environ.get('DEBEMAIL', 'root@localhost')}>"


@dataclass(frozen=True)
class Package:
    """One package: its description, the files of the installed tree that are its own, and what it asks for."""
    name: str
    about: str
    text: str
    files: tuple  # below /usr
    commands: tuple = ()  # programs whose --help becomes a man page
    unit: str = ""
    settings: str = ""  # of deploy/systemd, its conffile
    depends: str = ""
    recommends: str = ""
    suggests: str = ""
    section: str = "admin"


PACKAGES = (
    Package("muster-jobctl", "run and monitor distributed training jobs",
            "jobctl runs a command as the ranks of a job, on this machine or on a cluster, and shows its output, "
            "metrics and checkpoints. With muster-coordinator and muster-worker installed it needs no cluster and no "
            "settings.",
            ("bin/jobctl",), commands=("jobctl",), recommends="muster-coordinator, muster-worker", section="science"),
    Package("muster-coordinator", "coordinator of distributed training jobs",
            "The coordinator of a cluster keeps jobs, places them on nodes, and collects what they write. It is not "
            "started until it is enabled: systemctl enable --now muster-coordinator",
            ("bin/muster-coordinator",), commands=("muster-coordinator",), unit="muster-coordinator.service",
            settings="coordinator.env", depends="passwd", recommends="libcurl4t64 | libcurl4", suggests="muster-jobctl"),
    Package("muster-worker", "worker of distributed training jobs, one per node",
            "The worker launches the ranks of jobs on its node and streams back their output. Ranks survive when it is "
            "restarted or upgraded. It is not started until it is enabled: systemctl enable --now muster-worker",
            ("bin/muster-worker", "libexec/muster/muster-shim", "libexec/muster/muster-rendezvous",
             "libexec/muster/muster-unwind"),
            commands=("muster-worker",), unit="muster-worker.service", settings="worker.env",
            recommends="libcurl4t64 | libcurl4"),
)
SDK = Package("libmuster-dev", "C++ SDK of trainers that run under Muster",
              "Headers, the static library and the CMake package MusterTrainer, for programs on LibTorch, and Muster's "
              "API as .proto files. LibTorch itself comes from the Python package torch.",
              ("include", "lib", "share/muster/proto"), section="libdevel",
              depends="libgloo-dev, nlohmann-json3-dev, libstb-dev")


def write(release, bill, signer, out):
    """Writes the packages into `out` and returns their paths."""
    paths = [write_one(package, release, bill, signer, out) for package in PACKAGES]
    if release.has("trainer"):
        release.install("trainer", release.staged)
        paths.append(write_one(SDK, release, bill, signer, out))
    else:
        print(f"libmuster-dev is left out: {release.build} has no trainer SDK")
    return paths


def write_one(package, release, bill, signer, out):
    """Makes the package's tree in a folder, then dpkg-deb makes the archive of it."""
    architecture = run("dpkg", "--print-architecture").strip()
    with tempfile.TemporaryDirectory(prefix="muster-deb-") as folder:
        root = Path(folder) / "root"
        programs = take_files(package, release, root)
        add_documents(package, release, bill, root)
        if package.unit:
            add_unit(package, release, root)
        if package.name == "muster-jobctl":
            add_completions(release, root)
        add_list(package, release, signer, root)
        add_control(package, release, root, architecture, needed(programs, Path(folder)))
        settle(root, release.epoch)
        path = out / f"{package.name}_{release.version}_{architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--threads-max=1", "--build", root, path,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)})
        return path


def take_files(package, release, root):
    """Copies the package's part of the installed tree; returns its programs."""
    programs = []
    for name in package.files:
        source, target = release.tree / name, root / "usr" / name
        if not source.exists():
            raise Problem(f"{package.name} has usr/{name}, which cmake --install does not install; "
                          "fix: cmake/MusterInstall.cmake or deploy/packages/deb.py")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("systemd"))
        else:
            shutil.copy2(source, target)
            programs.append(target)
    return programs


def add_documents(package, release, bill, root):
    """License texts, what changed, man pages."""
    folder = root / "usr/share/doc" / package.name
    write_file(folder / "NEWS.gz", compressed((ROOT / "CHANGELOG.md").read_text()))
    write_file(folder / "changelog.gz", compressed(changelog(release)))
    write_file(folder / "copyright", (license_text() + (
        "\nThe libraries inside the programs have their own licenses: third-party.gz.\n" if package.commands else ""
    )).encode())
    if package.commands:
        write_file(folder / "third-party.gz", compressed(bill.licenses()))
        write_file(folder / "muster.spdx.json", bill.text().encode())
    for name in package.commands:
        section = 1 if name == "jobctl" else 8
        page = manual.page(name, section, package.about, release)
        write_file(root / f"usr/share/man/man{section}/{name}.{section}.gz", compressed(page))


def changelog(release):
    """As Debian wants it; people read NEWS."""
    day = email.utils.formatdate(release.epoch)
    return f"muster ({release.version}) unstable; urgency=medium\n\n  * See NEWS.gz.\n\n -- {MAINTAINER}  {day}\n"


def license_text():
    """The project's own, once there is one."""
    path = ROOT / "LICENSE"
    return path.read_text() if path.exists() else "Muster has no license yet: its authors keep all rights.\n"


def add_unit(package, release, root):
    """The unit, and its settings as a file that belongs to the administrator."""
    target = root / "usr/lib/systemd/system" / package.unit
    target.parent.mkdir(parents=True)
    shutil.copy2(release.tree / "lib/systemd/system" / package.unit, target)
    lines = (ROOT / "deploy/systemd" / f"{package.settings}.example").read_text().splitlines(keepends=True)
    lines[0] = f"# Settings of {package.unit}. Edit them before you enable it.\n"
    write_file(root / "etc/muster" / package.settings, "".join(lines).encode())
    write_file(root / "DEBIAN/conffiles", f"/etc/muster/{package.settings}\n".encode())
    for script in ("postinst", "prerm", "postrm"):
        text = "#!/bin/sh\nset -e\n"
        for part in (TEMPLATES / f"functions.{script}", TEMPLATES / f"{package.name}.{script}", TEMPLATES / f"unit.{script}"):
            text += part.read_text().replace("@UNIT@", package.unit) if part.exists() else ""
        write_file(root / "DEBIAN" / script, (text + "exit 0\n").encode(), 0o755)


def add_completions(release, root):
    """What the shells load when jobctl is first completed."""
    for shell, path in (("bash", "bash-completion/completions/jobctl"), ("zsh", "zsh/vendor-completions/_jobctl"),
                        ("fish", "fish/vendor_completions.d/jobctl.fish")):
        text = run("jobctl", "completion", shell, executable=release.program("jobctl"))
        write_file(root / "usr/share" / path, text.encode())


def add_list(package, release, signer, root):
    """The list of its files, but for what machines may leave out (documentation) or people change (settings)."""
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.is_symlink()
             and not re.match("(usr/share/(doc|man)|etc|DEBIAN)/", str(path.relative_to(root)))}
    whole = [f"usr/{each}" for each in {os.path.dirname(name) for name in package.files} if each.startswith("libexec/")]
    listed = files_list.text(package.name, release.version, files, whole, signer)
    for name, data in signer.signed(f"{package.name}.files", listed).items():
        write_file(root / "usr/share/muster/files" / name, data)


def add_control(package, release, root, architecture, libraries):
    """DEBIAN/control and DEBIAN/md5sums."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and (root / "DEBIAN") not in path.parents)
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files]
    write_file(root / "DEBIAN/md5sums", "".join(sums).encode())
    fields = {"Package": package.name, "Version": release.version, "Architecture": architecture,
              "Maintainer": MAINTAINER, "Installed-Size": sum(path.stat().st_size // 1024 + 1 for path in files),
              "Depends": ", ".join(filter(None, (libraries, package.depends))), "Recommends": package.recommends,
              "Suggests": package.suggests, "Section": package.section, "Priority": "optional",
              "Description": package.about + "".join(f"\n {line}" for line in textwrap.wrap(package.text, 78))}
    text = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    write_file(root / "DEBIAN/control", text.encode())


def needed(programs, folder):
    """The packages that the programs' shared libraries are in, with the versions that their symbols need."""
    if not programs:
        return ""
    (folder / "debian").mkdir()
    (folder / "debian/control").write_text("Source: muster\n\nPackage: muster\nArchitecture: any\n")
    told = run("dpkg-shlibdeps", "-O", *(f"-e{path}" for path in programs), cwd=folder)
    return told.strip().removeprefix("shlibs:Depends=")


def compressed(text):
    """gzip without a time stamp."""
    return gzip.compress(text.encode(), 9, mtime=0)


def write_file(path, data, mode=0o644):
    """A file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def settle(root, epoch):
    """Modes and times that depend on neither this machine's umask nor its clock."""
    for path in sorted(root.rglob("*"), reverse=True) + [root]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)

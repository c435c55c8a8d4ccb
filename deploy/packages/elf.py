"""What a program needs of the system that it runs on, read from its dynamic section and version references."""
import re

from release import Problem, run

# What PEP 600 lets a wheel expect and ours uses: glibc, and the unwinder, whose symbols are older than any glibc in use.
EXPECTED = re.compile(r"^(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux-[a-z0-9-]+)\.so\.\d+$")


def libraries(path):
    """The shared libraries that a program names; none if it is static."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--wide", "--dynamic", path))


def glibc(path):
    """(2, 34): the newest version of a symbol of glibc's that a program refers to; (0, 0) if it is static."""
    found = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", run("readelf", "--wide", "--version-info", path))
    return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))


def manylinux(paths, architecture):
    """The platform tag of a wheel with these programs. Libraries that not every Linux has are a Problem."""
    for path in paths:
        foreign = [name for name in libraries(path) if not EXPECTED.match(name)]
        if foreign:
            raise Problem(f"{path.name} needs {', '.join(foreign)}, which a wheel may not expect; "
                          "fix: link it statically (cmake/MusterBuild.cmake)")
    major, minor = max(glibc(path) for path in paths)
    return f"manylinux_{major}_{minor}_{architecture}"

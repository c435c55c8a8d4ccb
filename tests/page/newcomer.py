"""The tree of someone who has typed `./dev build tour` and no more: the sources, the programs, and a Python environment
that has what that installs, without the packages that only tests use."""
import importlib.metadata as metadata
import os
import re
import stat
import subprocess

import harness

INSTALLED = ["torch", "numpy", *re.findall(r"^(\w[\w-]*)", open(os.path.join(harness.ROOT, "examples/requirements.txt")).read(), re.M)]


def distributions(names):
    """Those that are installed of `names` and of all that they need, as pip would have brought them."""
    found, wanted = {}, list(names)
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        for need in found[name].requires or []:
            if "extra ==" not in need:
                wanted.append(re.match(r"[\w.-]+", need).group())
    return found.values()


def environment(directory):
    subprocess.run([harness.PYTHON, "-m", "venv", "--without-pip", directory], check=True)
    add(directory, INSTALLED)


def add(directory, names):
    """These packages and what they need, as links to those that the tests have."""
    packages = next(os.path.join(directory, "lib", name, "site-packages") for name in os.listdir(directory + "/lib"))
    for each in distributions(names):
        for top in {file.parts[0] for file in each.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            link = os.path.join(packages, top)
            if not os.path.lexists(link):
                os.symlink(each.locate_file(top), link)
        for script in each.entry_points.select(group="console_scripts"):
            path = os.path.join(directory, "bin", script.name)
            with open(path, "w") as file:
                file.write(f"#!{directory}/bin/python\nimport sys\nfrom {script.module} import {script.attr}\n"
                           f"sys.exit({script.attr}())\n")
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


def add_pip(tree):
    """pip, and what it would bring from the index for `./python` and its extras."""
    add(tree + "/.venv", ["pip", "setuptools", "grpcio-tools", "grpcio", "protobuf", "PyYAML", "py-spy"])


def tree(directory):
    """A directory that looks like the root of the sources after the build."""
    os.mkdir(directory)
    for name in os.listdir(harness.ROOT):
        if not name.startswith((".", "build", "dist")):
            os.symlink(os.path.join(harness.ROOT, name), os.path.join(directory, name))
    os.symlink(harness.BUILD, os.path.join(directory, "build"))
    environment(os.path.join(directory, ".venv"))
    return directory

"""Writes small OCI image layouts (docs/containers.md, `oci:DIR`), also hostile ones, without any container tool."""
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

PROGRAMS = ("sh", "cat", "ls", "id", "env", "sleep", "mkdir", "touch", "rm", "dd", "readlink", "head", "tail", "mount", "unshare")


def libraries(path):
    """What the dynamic linker loads for a program of this machine."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return set(re.findall(r"(/\S+) \(0x", said))


class Tree:
    """A layer as it is made: what a path is, in order."""

    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w")
        self.known = set()

    def directory(self, path, mode=0o755):
        if path in self.known or not path:
            return
        self.directory(os.path.dirname(path))
        self.entry(path, type=tarfile.DIRTYPE, mode=mode)

    def entry(self, path, data=b"", **fields):
        self.known.add(path)
        info = tarfile.TarInfo(path)
        info.size = len(data)
        info.mode = 0o644
        for name, value in fields.items():
            setattr(info, name, value)
        self.tar.addfile(info, io.BytesIO(data))

    def file(self, path, data, mode=0o644):
        self.directory(os.path.dirname(path))
        self.entry(path, data if isinstance(data, bytes) else data.encode(), mode=mode)

    def link(self, path, to):
        self.directory(os.path.dirname(path))
        self.entry(path, type=tarfile.SYMTYPE, linkname=to, mode=0o777)

    def program(self, path, to=None):
        """A program of this machine with its libraries."""
        for each in {path, *libraries(path)}:
            target = (to if each == path and to else each).lstrip("/")
            if target not in self.known:
                with open(each, "rb") as file:
                    self.file(target, file.read(), 0o755)

    def layer(self):
        self.tar.close()
        return self.bytes.getvalue()


def small_tree(programs=PROGRAMS, system=("dev", "proc", "sys"), programs_in="bin"):
    """A root file system in which sh and a few programs run."""
    tree = Tree()
    for path in (*system, "etc", "root", "usr/bin", "var/tmp"):
        tree.directory(path)
    tree.directory("tmp", 0o1777)
    tree.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    tree.file("etc/group", "root:x:0:\n")
    for name in programs:
        tree.program(shutil.which(name), f"{programs_in}/{name}")
    return tree


def write(directory, layers, config=None, architecture="amd64", tamper=None):
    """An OCI layout; `tamper` changes the manifest before it is written. Returns the manifest's digest."""
    blobs = os.path.join(directory, "blobs", "sha256")
    os.makedirs(blobs)

    def put(data, kind):
        name = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, name), "wb") as file:
            file.write(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{name}", "size": len(data)}

    described = [put(gzip.compress(layer, 1, mtime=0), "layer.v1.tar+gzip") for layer in layers]
    diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    image = {"architecture": architecture, "os": "linux", "config": config or {}, "rootfs": {"type": "layers", "diff_ids": diffs}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": put(json.dumps(image).encode(), "config.v1+json"), "layers": described}
    if tamper:
        tamper(manifest)
    named = put(json.dumps(manifest).encode(), "manifest.v1+json")
    with open(os.path.join(directory, "oci-layout"), "w") as file:
        file.write('{"imageLayoutVersion": "1.0.0"}')
    with open(os.path.join(directory, "index.json"), "w") as file:
        json.dump({"schemaVersion": 2, "manifests": [named]}, file)
    return named["digest"]

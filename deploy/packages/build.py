#!/usr/bin/env python3
"""`./dev package`: a wheel, Debian packages and a bill of materials of what lies in a build tree.

    build.py --build build --out dist [--wheel] [--deb] [--programs DIR] [--sign KEY]

Without --wheel or --deb it makes all. Two runs over the same tree write the same bytes: every time stamp is that of the
last commit, or SOURCE_DATE_EPOCH. SHA256SUMS has all that was made; with --sign it is signed, and so is each package's list
of its files.
"""
import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

import deb
import files_list
import sbom
import wheel
from release import Problem, Release


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build"), help="the build tree")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where the packages go")
    parser.add_argument("--wheel", action="store_true", help="only the wheel")
    parser.add_argument("--deb", action="store_true", help="only the Debian packages")
    parser.add_argument("--programs", type=Path, help="take programs that are here from here: another version's")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="sign with this Ed25519 private key (PEM)")
    options = parser.parse_args()
    signer = files_list.Signer(options.sign)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="muster-package-") as folder:
        release = Release(options.build, Path(folder), options.programs)
        bill = sbom.Bill(release)
        made = [bill.write(options.out / f"muster-{release.version}.spdx.json")]
        if options.wheel or not options.deb:
            made.append(wheel.write(release, bill, signer, options.out))
        if options.deb or not options.wheel:
            made += deb.write(release, bill, signer, options.out)
    sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    for path, digest in sums.items():
        print(f"{digest}  {path}  {path.stat().st_size / 1e6:.1f} MB")
    listed = "".join(f"{digest}  {path.name}\n" for path, digest in sums.items()).encode()
    for name, data in signer.signed("SHA256SUMS", listed).items():
        (options.out / name).write_bytes(data)
    print(f"signed by {signer.name}" if options.sign else "unsigned: ./dev package --sign KEY signs them")


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit(f"error: {problem}")

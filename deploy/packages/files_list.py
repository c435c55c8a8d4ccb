"""The list of a package's files with their SHA-256, which `jobctl version --verify` compares: as `sha256sum --check` reads
it, signed with Ed25519 where there is a key. The key is a parameter: none is in the repository."""
import hashlib
import subprocess
import tempfile
from pathlib import Path

from release import Problem


class Signer:
    """A private key in PEM; without one nothing is signed, and the lists tell."""

    def __init__(self, key=None):
        self.key, self.public, self.name = key, b"", "nobody"
        if key is None:
            return
        self.public = self._openssl("pkey", "-in", key, "-pubout")
        if b"ED25519" not in self._openssl("pkey", "-in", key, "-noout", "-text_pub"):
            raise Problem(f"{key} is not an Ed25519 key; fix: openssl genpkey -algorithm ED25519 -out KEY")
        der = self._openssl("pkey", "-in", key, "-pubout", "-outform", "DER")
        self.name = "SHA256:" + hashlib.sha256(der).hexdigest()

    def signature(self, data):
        """Of these bytes, 64 bytes: `openssl pkeyutl -verify -rawin` checks it."""
        with tempfile.TemporaryDirectory(prefix="muster-sign-") as folder:
            path = Path(folder, "data")
            path.write_bytes(data)  # a pipe has no size, which pkeyutl wants of -rawin
            return self._openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.key, "-in", path)

    def signed(self, name, data):
        """{name: data} with the signature and the public key beside it."""
        if self.key is None:
            return {name: data}
        return {name: data, f"{name}.sig": self.signature(data), f"{name}.pub": self.public}

    @staticmethod
    def _openssl(*words):
        try:
            done = subprocess.run(["openssl", *(str(word) for word in words)], capture_output=True, check=False)
        except FileNotFoundError:
            raise Problem("packages are signed with openssl, which is not installed; fix: apt install openssl") from None
        if done.returncode != 0:
            raise Problem(f"openssl {words[0]} failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
        return done.stdout


def text(package, version, files, whole, signer):
    """`files`: {path: bytes}; `whole`: directories that have nothing else."""
    lines = ["# muster-files 1", f"# package: {package} {version}", f"# signed-by: {signer.name}"]
    lines += [f"# whole: {path}" for path in whole]
    lines += [f"{hashlib.sha256(data).hexdigest()}  {path}" for path, data in sorted(files.items())]
    return ("\n".join(lines) + "\n").encode()

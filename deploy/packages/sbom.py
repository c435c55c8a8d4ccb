"""The bill of materials: which Debian packages' code is in which program, as SPDX 2.3 and as their license texts.

Nothing is listed by hand. Libraries come from each program's link command, headers from what the compiler read, other
files from what the build names as its inputs; dpkg knows whose they are.
"""
import datetime
import hashlib
import json
import re
import shlex
from pathlib import Path

from release import COMMANDS, HELPERS, ROOT, Problem, commit, run

# What -static-pie and -static-libstdc++ link without naming it.
RUNTIME = {"-static-pie": ("c", "m", "stdc++", "gcc", "gcc_eh"), "-static-libstdc++": ("stdc++", "gcc")}
# Interfaces of the system whose code stays in the system: their headers leave nothing in a program.
INTERFACES = re.compile(r"^(libc6-dev|linux-libc-dev|libstdc\+\+-\d+-dev|libgcc-\d+-dev)$")
# Folders whose objects are not part of any program that is packaged.
NOT_PACKAGED = ("tests/", "bench/", "examples/", "trainer/")


class Bill:
    """What is in the programs of a release."""

    def __init__(self, release):
        self.release = release
        linked = {name: owners(static_archives(release.build, name)) for name in COMMANDS + HELPERS}
        inputs = {name: owners(foreign_inputs(release.build, name)) for name in COMMANDS + HELPERS}
        headers = owners(included_headers(release.build))
        self.linked = linked
        self.contained = {name: inputs[name] - linked[name] for name in linked}
        everything = set().union(*linked.values(), *inputs.values())
        self.header_only = {name for name in headers - everything if not INTERFACES.match(name)}
        self.packages = facts(everything | self.header_only)

    def write(self, path):
        """Writes the document and returns its path."""
        path.write_text(self.text())
        return path

    def text(self):
        """The SPDX document."""
        return json.dumps(self._document(), indent=1, sort_keys=True) + "\n"

    def licenses(self):
        """The license texts of all packages: their authors require anyone who distributes the code to include them."""
        parts = ["Programs of Muster contain code of the following Debian packages.\n"]
        for name, fact in sorted(self.packages.items()):
            text = Path(f"/usr/share/doc/{name.split(':')[0]}/copyright").read_text(errors="replace")
            parts.append(f"{'=' * 80}\n{name} {fact['version']}\n{'=' * 80}\n{text}")
        return "\n".join(parts)

    def _document(self):
        version, made = self.release.version, commit()
        moment = datetime.datetime.fromtimestamp(self.release.epoch, datetime.timezone.utc)
        sums = sorted(hashlib.sha1(path.read_bytes()).hexdigest() for path in self.release.programs())
        product = {"SPDXID": "SPDXRef-muster", "name": "muster", "versionInfo": version, "filesAnalyzed": True,
                   "packageVerificationCode": {
                       "packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()},
                   "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION",
                   "licenseDeclared": "NOASSERTION", "licenseInfoFromFiles": ["NOASSERTION"],
                   "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
                   "sourceInfo": f"commit {made or 'unknown'}"}
        files, links = [], [relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-muster")]
        for path in self.release.programs():
            data, reference = path.read_bytes(), f"SPDXRef-{path.name}"
            files.append({"SPDXID": reference, "fileName": f"./{path.name}", "fileTypes": ["BINARY"],
                          "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                                        {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
                          "licenseConcluded": "NOASSERTION", "licenseInfoInFiles": ["NOASSERTION"],
                          "copyrightText": "NOASSERTION"})
            links.append(relation("SPDXRef-muster", "CONTAINS", reference))
            links += [relation(reference, "STATIC_LINK", identifier(name)) for name in sorted(self.linked[path.name])]
            links += [relation(reference, "CONTAINS", identifier(name)) for name in sorted(self.contained[path.name])]
        links += [relation("SPDXRef-muster", "CONTAINS", identifier(name)) for name in sorted(self.header_only)]
        seed = hashlib.sha256(json.dumps([files, made]).encode()).hexdigest()[:32]
        return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"muster-{version}", "documentNamespace": f"https://muster.invalid/spdx/muster-{version}-{seed}",
                "creationInfo": {"created": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                 "creators": ["Tool: deploy/packages/sbom.py"]},
                "packages": [product, *(entry(name, fact) for name, fact in sorted(self.packages.items()))],
                "files": files, "relationships": links}


def relation(one, kind, other):
    """One relationship of SPDX."""
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def identifier(name):
    """A package's name as SPDX allows identifiers: letters, digits, dots and hyphens."""
    return "SPDXRef-deb-" + re.sub(r"[^A-Za-z0-9.-]", "-", name.replace("+", "p"))


def entry(name, fact):
    """A Debian package as one of SPDX."""
    plain = name.split(":")[0]
    locator = f"pkg:deb/debian/{plain.replace('+', '%2B')}@{fact['version'].replace('+', '%2B').replace(':', '%3A')}"
    return {"SPDXID": identifier(name), "name": plain, "versionInfo": fact["version"], "filesAnalyzed": False,
            "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "sourceInfo": f"built from Debian's source package {fact['source']}",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"{locator}?arch={fact['architecture']}"}]}


def static_archives(build, program):
    """The archives of other projects that a program's link command names."""
    command = shlex.split(run("ninja", "-C", build, "-t", "commands", "-s", f"bin/{program}").strip().splitlines()[-1])
    libraries, static = [], False
    for word in command:
        if word in ("-Wl,-Bstatic", "-Wl,-Bdynamic"):
            static = word == "-Wl,-Bstatic"
        elif word.startswith("-l") and (static or "-static-pie" in command):
            libraries.append(word[2:])
        else:
            libraries += RUNTIME.get(word, ())
    paths = [Path(word) for word in command if word.startswith("/") and word.endswith(".a")]
    for name in dict.fromkeys(libraries):
        found = run("c++", f"-print-file-name=lib{name}.a").strip()
        if not found.startswith("/"):
            raise Problem(f"{program} is linked with -l{name}, but lib{name}.a is not found; fix: install it")
        paths.append(Path(found))
    return [path.resolve() for path in paths if build not in path.parents]


def foreign_inputs(build, program):
    """Files of the system that the build itself names as inputs of a program, like the page's charts."""
    listed = run("ninja", "-C", build, "-t", "inputs", f"bin/{program}").splitlines()
    paths = [Path(line) for line in listed if line.startswith("/usr/share/")]
    return [path.resolve() for path in paths if "cmake" not in str(path)]


def included_headers(build):
    """The system's headers that the compiler read for objects of the programs."""
    found, takes = set(), False
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            takes = not line.startswith(NOT_PACKAGED)
        elif takes and line.startswith("    /usr/"):
            found.add(Path(line.strip()))
    return [path for path in found if ROOT not in path.parents and path.exists()]


def owners(paths):
    """The Debian packages that files belong to."""
    names, known = set(), sorted({str(path) for path in paths})
    for start in range(0, len(known), 500):
        for line in run("dpkg", "-S", *known[start:start + 500]).splitlines():
            if not line.startswith("diversion by"):
                names |= {name.strip().split(":")[0] for name in line.rsplit(": ", 1)[0].split(",")}
    return names


def facts(names):
    """{package: version, source, architecture} of installed packages."""
    shown = run("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package} ${source:Version}\t"
                "${Architecture}\n", *sorted(names)) if names else ""
    rows = [line.split("\t") for line in shown.splitlines()]
    return {name: {"version": version, "source": source, "architecture": architecture}
            for name, version, source, architecture in rows}

"""The packaged coordinator under its unit's own lines: what of the file system systemd lets it write to, without
capabilities, with the clock after a certificate's renewal is due and after its end."""
import glob
import json
import os
import shutil
import ssl
import subprocess
import urllib.request

import harness
from harness import BIN, ROOT, Case, Daemon, free_port, need, wait_until

UNIT = os.path.join(ROOT, "deploy/systemd/muster-coordinator.service.in")
# As the command `faketime` has it, which stays between a program and its signals.
PRELOAD = "LD_PRELOAD=/usr/$LIB/faketime/libfaketimeMT.so.1"
WRITABLE = "/dev", "/proc", "/sys"  # what ProtectSystem=strict leaves alone


def unit():
    """{key: values}"""
    found = {}
    with open(UNIT) as file:
        for line in file.read().replace("\\\n", " ").splitlines():
            if "=" in line and not line.startswith("#"):
                key, value = line.split("=", 1)
                found.setdefault(key, []).append(value)
    return found


def started_by(unit, own):
    """A script for a new mount namespace: directories and mounts as the unit has them, then "$@". What it makes in /etc
    and /var/lib lies in `own`, and /run is empty."""
    state = "/var/lib/" + unit["StateDirectory"][0]
    runtime = "/run/" + unit["RuntimeDirectory"][0]
    paths = [path.lstrip("-") for path in " ".join(unit["ReadWritePaths"]).split()]
    assert unit["ProtectSystem"] == ["strict"] and unit["PrivateTmp"] == ["yes"] and unit["NoNewPrivileges"] == ["yes"]
    lines = ["set -e"]
    for place in ("etc", "var/lib"):
        name = place.replace("/", "-")
        lines += [f"mkdir -p {own}/{name}/upper {own}/{name}/work",
                  f"mount -t overlay overlay -o lowerdir=/{place},upperdir={own}/{name}/upper,workdir={own}/{name}/work /{place}"]
    lines += ["mount -t tmpfs tmpfs /run", f"mkdir -p {state} {runtime} {' '.join(paths)}",
              f"chown nobody {state} {runtime} {' '.join(paths)}", f"chmod {unit['StateDirectoryMode'][0]} {state}",  # plain-words: the account
              "mount -t tmpfs -o mode=1777 tmpfs /tmp", "mount -t tmpfs -o mode=1777 tmpfs /var/tmp"]
    lines += [f"mount --bind {path} {path}" for path in (state, runtime, *paths)]
    writable = "|".join([*(f"{path}|{path}/*" for path in WRITABLE), state, runtime, *paths, "/tmp", "/var/tmp"])
    lines += ["while read -r _ path _; do case $path in", f"  {writable}) ;;",
              '  *) mount -o remount,bind,ro "$path" 2>/dev/null || true ;;', "esac; done </proc/self/mounts",
              f"! touch /etc/x 2>/dev/null && ! touch {os.path.dirname(state)}/x 2>/dev/null",
              "exec setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs --inh-caps=-all "
              f"--bounding-set=-all -- env STATE_DIRECTORY={state} RUNTIME_DIRECTORY={runtime} \"$@\""]
    return "\n".join(lines)


class Unit(Case):
    def setUp(self):
        super().setUp()
        need(os.geteuid() == 0 and shutil.which("setpriv") and shutil.which("faketime"), "needs root, setpriv and faketime")
        need(not BIN.startswith(("/tmp/", "/run/")), "the programs lie where the unit has its own directory")
        self.own = self.path("own")
        os.makedirs(self.own)
        # An overlay's upper directory cannot lie on another overlay.
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.own], capture_output=True)
        need(mounted.returncode == 0, "may not mount")
        self.addCleanup(subprocess.run, ["umount", self.own], check=False)
        self.unit = unit()
        self.script = started_by(self.unit, self.own)
        tried = subprocess.run(self.under("true"), capture_output=True, text=True)
        need(tried.returncode == 0 or "mount: /etc" not in tried.stderr, "cannot mount an overlay here")
        self.assertEqual(tried.returncode, 0, tried.stderr)
        self.http = free_port()

    def under(self, *command):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", self.script, "sh", *command]

    def certificate(self):
        """Until when the coordinator's is valid."""
        own, = (path for path in glob.glob(self.own + "/etc/upper/muster/keys/*.pem") if os.path.basename(path) != "ca.pem")
        return subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", own], capture_output=True, text=True,
                              check=True).stdout

    def ready(self, later):
        """What /readyz says of a coordinator so much later."""
        start, = self.unit["ExecStart"]
        words = start.replace("@MUSTER_BINDIR@", BIN).replace("$MUSTER_COORDINATOR_OPTIONS", f"--listen 127.0.0.1:0 --http 127.0.0.1:{self.http}")
        daemon = Daemon(self.under(*(["env", PRELOAD, "FAKETIME=" + later] if later else []), "sh", "-c", "exec " + words),
                        dict(self.env), self.path("coordinator.out"))
        self.daemons.append(daemon)
        daemon.start()
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

        def answer():
            self.assertTrue(daemon.alive(), daemon.output())
            try:
                with urllib.request.urlopen(f"https://127.0.0.1:{self.http}/readyz", context=trusting) as response:
                    return response.read().decode()
            except OSError:
                return None
        said = wait_until(answer, lambda: daemon.output())
        daemon.stop()
        return said

    def test_it_starts_and_renews_its_certificate_whenever_that_is_due(self):
        init = subprocess.run(self.under(os.path.join(BIN, "muster-coordinator"), "init", "--data-dir", "/var/lib/muster/coordinator",
                                         "--keys-dir", "/etc/muster/keys", "--name", "lab", "--host", "127.0.0.1"),
                              env=self.env, capture_output=True, text=True)
        self.assertEqual(init.returncode, 0, init.stderr)
        seen = []
        for later in ("", "+61d", "+200d"):
            self.assertEqual(self.ready(later), "ready\n", later)
            seen.append(self.certificate())
        self.assertEqual(len(set(seen)), 3, f"at +61 days it was due, at +200 it had ended: {seen}")

    def test_nothing_in_it_is_unknown_to_systemd(self):
        need(shutil.which("systemd-analyze"), "needs systemd-analyze")
        path = self.path("muster-coordinator.service")
        with open(UNIT) as template, open(path, "w") as file:
            file.write(template.read().replace("@MUSTER_BINDIR@", BIN))
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--json=short", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Unknown", done.stderr)
        exposed = sum(float(each["exposure"] or 0) for each in json.loads(done.stdout) if not each["set"])
        print(f"systemd-analyze: what is left open weighs {exposed:.1f}")


if __name__ == "__main__":
    harness.main()

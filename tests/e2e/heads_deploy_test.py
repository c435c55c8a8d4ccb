"""What deploy/ has for several coordinators: the settings of the unit, and containers/heads.yaml with the real programs and
the image's own script, but without containers: names and directories of its services are replaced by addresses of
loopback and directories of the test."""
import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

import harness
import heads
from harness import Case, need, wait_until

CONTAINERS = os.path.join(harness.ROOT, "deploy", "containers")
ANY = ssl._create_unverified_context()


class Compose(Case):
    def setUp(self):
        super().setUp()
        try:
            import yaml
        except ImportError:
            need(False, "PyYAML is not here")
        need(heads.binary("etcd"), "there is no etcd here (the package etcd-server)")
        with open(os.path.join(CONTAINERS, "heads.yaml")) as file:
            self.services = yaml.safe_load(file)["services"]
        with open(os.path.join(CONTAINERS, "start-coordinator")) as file:
            self.script = file.read()
        # Ports are the file's, so each service has its own address; another run of this test has others.
        self.addresses = {name: f"127.{78 + os.getpid() // 250 % 40}.{os.getpid() % 250}.{number}"
                          for number, name in enumerate(self.services, start=1)}
        self.env.update(PATH=f"{harness.BIN}:{self.env['PATH']}", HOME=self.directory)

    def here(self, service, text):
        """A text of the file, or of the script, as this machine has it."""
        volumes = [volume.split(":")[:2] for volume in self.services[service]["volumes"]]
        for volume, place in sorted(volumes, key=lambda pair: -len(pair[1])):
            os.makedirs(self.path(volume), mode=0o700, exist_ok=True)
            text = text.replace(place, self.path(volume))
        text = text.replace("0.0.0.0", self.addresses[service]).replace("uname -n", f"echo {service}")
        return re.sub(r"\b(?:etcd|head)\d(?=:\d)", lambda name: self.addresses[name[0]], text)

    def start(self, service, argv, **env):
        log = self.path(service + ".out")
        daemon = harness.Daemon(argv, {**self.env, **env}, log)
        self.daemons.append(daemon)
        return daemon.start()

    def start_etcd(self, service):
        with open(os.path.join(CONTAINERS, "Containerfile")) as file:
            entry = re.search(r'^ENTRYPOINT \["etcd", (.*?)\]', file.read(), re.M | re.S)[1]
        words = re.findall(r'"([^"]+)"', entry) + self.services[service]["command"]
        return self.start(service, [heads.binary("etcd"), *(self.here(service, word) for word in words)])

    def start_head(self, service):
        script = self.path(service + ".sh")
        with open(script, "w") as file:
            file.write(self.here(service, self.script))
        env = {name: self.here(service, value) for name, value in self.services[service]["environment"].items()}
        env["MUSTER_HOSTS"] = self.addresses[service]
        return self.start(service, ["sh", script, "--lease", "2s"], **env)

    def get(self, service, target):
        try:
            with urllib.request.urlopen(f"https://{self.addresses[service]}:7701{target}", context=ANY, timeout=2) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def leader(self, *others):
        def found():
            return [name for name in self.heads if name not in others and self.get(name, "/leader") == 200]
        return wait_until(found, lambda: "one leads: " + "".join(
            f"\n{name}: {self.heads[name].output()[-1500:]}" for name in self.heads))[0]

    def test_three_heads_come_up_and_replace_each_other(self):
        for name in self.services:
            if name.startswith("etcd"):
                self.start_etcd(name)
        # The others first: they wait for the authority.
        self.heads = {name: self.start_head(name) for name in ("head3", "head2")}
        wait_until(lambda: "waiting for ca.pem" in self.heads["head2"].output(), self.heads["head2"].output)
        self.heads["head1"] = self.start_head("head1")
        for name in self.heads:
            wait_until(lambda: self.get(name, "/healthz") == 200, self.heads[name].output)
        first = self.leader()
        [line] = self.services["join-token"]["command"]
        token = self.services["join-token"]["entrypoint"] + [self.here("join-token", line.replace("$$", "$"))]
        self.assertEqual(self.start("join-token", token).process.wait(timeout=harness.DEADLINE_S), 0)
        with open(self.path("join/token")) as file:
            self.assertRegex(file.read(), r"^muster1\.")

        self.heads[first].kill9()
        self.leader(first)
        self.one_that_lost_what_it_has_starts_again("head1")

    def one_that_lost_what_it_has_starts_again(self, name):
        """The one that moved the state: killed before it noted that, and then without its volumes."""
        head = self.heads[name]
        head.kill9()
        os.unlink(self.path("data1/MOVED"))
        head = self.start_head(name)
        wait_until(lambda: self.get(name, "/healthz") == 200, head.output)
        self.assertTrue(os.path.exists(self.path("data1/MOVED")))
        head.kill9()
        for volume in ("data1", "keys1"):
            shutil.rmtree(self.path(volume))
        self.heads[name] = self.start_head(name)
        wait_until(lambda: self.get(name, "/healthz") == 200, self.heads[name].output)
        self.leader()


class Settings(Case):
    def test_the_coordinator_knows_every_flag_of_its_settings_file(self):
        with open(os.path.join(harness.ROOT, "deploy", "systemd", "coordinator.env.example")) as file:
            lines = re.findall(r"^#?MUSTER_COORDINATOR_OPTIONS=(.*)$", file.read(), re.M)
        self.assertEqual([("--state" in line) for line in lines], [False, True])
        for line in lines:
            done = subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), "--data-dir", self.path("d"), *line.split(),
                                   "--and-one-it-does-not-know"], capture_output=True, text=True, timeout=30)
            self.assertIn("unknown: --and-one-it-does-not-know\n", done.stderr)


if __name__ == "__main__":
    harness.main()

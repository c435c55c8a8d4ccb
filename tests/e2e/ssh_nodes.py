"""Machines that are reached by ssh: an sshd with its own keys in a network namespace each, whose sessions have a home of
their own below the test's directory. Nothing of the machine's own ssh is used."""
import glob
import os
import shutil
import subprocess

import harness
from harness import need, wait_until
from network import Network

SSHD = "/usr/sbin/sshd"


class SshNodes:
    def __init__(self, case, count):
        need(harness.has_network_namespaces(), "needs root, iproute2 and network namespaces")
        need(os.path.exists(SSHD) and shutil.which("ssh"), "needs openssh-server and openssh-client")
        self.case = case
        os.makedirs("/run/sshd", exist_ok=True)  # sshd does not start without it
        self.network = Network(case, count)
        case.addCleanup(self.remove_sockets)
        self.key("user")
        self.key("host")
        self.daemons, lines = {}, []
        for number, (name, address) in enumerate(self.network.nodes.items()):
            os.makedirs(self.home(name))
            self.start(name, address, 2200 + number)
            lines.append(f"Host {name}\n  HostName {address}\n  Port {2200 + number}\n")
        with open(case.path("host.pub")) as file:
            key = " ".join(file.read().split()[:2])
        with open(case.path("known"), "w") as file:
            file.writelines(f"[{address}]:{2200 + i} {key}\n" for i, address in enumerate(self.network.nodes.values()))
        self.config = case.path("ssh_config")
        with open(self.config, "w") as file:
            file.write("".join(lines) + f"Host *\n  User root\n  IdentityFile {case.path('user')}\n  IdentitiesOnly yes\n"
                       f"  UserKnownHostsFile {case.path('known')}\n  GlobalKnownHostsFile /dev/null\n  LogLevel ERROR\n")

    def key(self, name):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.case.path(name)], check=True)

    def home(self, name):
        return self.case.path("home-" + name)

    def remove_sockets(self):
        """What a cluster that a failed test left up has outside of its homes."""
        for path in glob.glob(self.case.path("home-*/.muster/clusters/*/*/runtime")):
            with open(path) as file:
                runtime = file.read().strip()
            if runtime.startswith("/tmp/muster-"):
                shutil.rmtree(runtime, ignore_errors=True)

    def start(self, name, address, port):
        path, home = self.case.path(f"sshd-{name}"), self.home(name)
        with open(path, "w") as file:
            file.write(f"Port {port}\nListenAddress {address}\nHostKey {self.case.path('host')}\nPidFile none\nUsePAM no\n"
                       f"AuthorizedKeysFile {self.case.path('user.pub')}\nStrictModes no\nPermitRootLogin prohibit-password\n"
                       f"ForceCommand cd {home} && HOME={home} exec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n")
        daemon = harness.Daemon([SSHD, "-D", "-e", "-f", path], dict(self.case.env), path + ".out",
                                self.network.inside(name))
        self.case.daemons.append(daemon)
        daemon.start()
        self.daemons[name] = daemon
        wait_until(lambda: "Server listening" in daemon.output(), daemon.output)

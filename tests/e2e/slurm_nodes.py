"""A separate Slurm: munged and slurmctld in the head's network namespace, a slurmd in each node's, which has its own host
name too. Nothing of the machine's own Slurm is used."""
import os
import shutil
import subprocess

import harness
from harness import need, wait_until
from network import Network

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue")
SEARCHED = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))


class SlurmNodes:
    def __init__(self, case, count):
        need(harness.has_network_namespaces(), "needs root, iproute2 and network namespaces")
        missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
        need(not missing, f"needs slurm-wlm and munge: {' '.join(missing)} missing")
        self.case, self.network = case, Network(case, count)
        self.directory = case.path("slurm")
        os.makedirs(self.directory)
        os.chmod(case.directory, 0o755)
        self.configuration = os.path.join(self.directory, "slurm.conf")
        self.environment = {"SLURM_CONF": self.configuration}
        for name in self.network.nodes:
            os.makedirs(os.path.join(self.directory, f"spool-{name}"))
        os.makedirs(os.path.join(self.directory, "state"))
        self.start_munge()
        self.configure()
        self.daemon("slurmctld", "-D", "-f", self.configuration)
        for name in self.network.nodes:
            self.daemon("slurmd", "-D", "-N", name, "-f", self.configuration, node=name)
        wait_until(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(count), "the nodes are idle")

    def daemon(self, name, *args, node=None):
        # Not `ip netns exec`, which hides the cgroups.
        host = node or "head"
        prefix = ["nsenter", f"--net=/run/netns/{self.network.inside(node)[-1]}",
                  "unshare", "-u", "sh", "-c", f'hostname {host} && exec "$@"', "sh"]
        daemon = harness.Daemon([shutil.which(name, path=SEARCHED), *args], {**self.case.env, **self.environment},
                                os.path.join(self.directory, f"{name}{node or ''}.out"), prefix)
        self.case.daemons.append(daemon)
        return daemon.start()

    def start_munge(self):
        folder = os.path.join(self.directory, "munge")
        os.makedirs(folder, mode=0o755)
        with open(os.path.join(folder, "key"), "wb") as file:
            os.fchmod(file.fileno(), 0o400)
            file.write(os.urandom(128))
        self.socket = os.path.join(folder, "socket")
        munge = self.daemon("munged", "--foreground", "--force", "--socket=" + self.socket,
                            *(f"--{what}-file={folder}/{what}" for what in ("key", "pid", "log", "seed")))
        wait_until(lambda: os.path.exists(self.socket), munge.output)

    def configure(self):
        folder = self.directory
        lines = [
            "ClusterName=test", f"SlurmctldHost=head({self.network.address})", f"AuthInfo=socket={self.socket}",
            "SlurmUser=root", "SlurmdUser=root", f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
            f"SlurmctldPidFile={folder}/ctld.pid", f"SlurmdPidFile={folder}/%n.pid", "SwitchType=switch/none",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres", "MpiDefault=none",
            "ReturnToService=2", "KillWait=5", "MessageTimeout=20", "SchedulerParameters=sched_min_interval=0",
            "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
            *(f"NodeName={name} NodeHostname={name} NodeAddr={address} CPUs=2 State=UNKNOWN"
              for name, address in self.network.nodes.items()),
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
        with open(self.configuration, "w") as file:
            file.write("\n".join(lines) + "\n")

    def run(self, *words):
        done = subprocess.run([*self.network.inside(), *words], env={**self.case.env, **self.environment},
                              capture_output=True, text=True, timeout=60)
        return done.stdout

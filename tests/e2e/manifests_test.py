"""deploy/kubernetes and deploy/containers/compose.yaml, checked without a cluster and without a network."""
import json
import os
import re
import shutil
import subprocess
import sys

import harness
from harness import Case, need

DEPLOY = os.path.join(harness.ROOT, "deploy")
# Beside the Python of the tests, too.
PATH = os.pathsep.join([os.environ.get("PATH", ""), os.path.dirname(sys.executable)])
WORKERS = {"worker", "pool", "heads-worker"}
ROOTS_RIGHTS = {"SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER", "SYS_PTRACE"}


def tool(name):
    path = shutil.which(name, path=PATH)
    need(path, f"{name} is not here")
    return path


class Manifests(Case):
    def rendered(self, folder):
        kubectl = tool("kubectl")
        path = self.path(folder + ".yaml")
        with open(path, "w") as file:
            subprocess.run([kubectl, "kustomize", os.path.join(DEPLOY, "kubernetes", folder)], stdout=file, check=True,
                           timeout=60)
        return path

    def objects(self, folder):
        """As kubectl's own types read them: a wrong kind or a wrong type of a field fails."""
        done = subprocess.run([tool("kubectl"), "label", "--local", "--dry-run=client", "-f", self.rendered(folder), "-o", "json",
                               "checked=yes"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        decoder, text, found = json.JSONDecoder(), done.stdout.strip(), []
        while text:
            value, end = decoder.raw_decode(text)
            found += value.get("items", [value])
            text = text[end:].lstrip()
        return found

    def pods(self):
        found = {}
        for folder in ("base", "pool", "heads"):
            for item in self.objects(folder):
                if "template" in item.get("spec", {}):
                    name = item["metadata"]["name"]
                    # Of the one coordinator, and of several.
                    found[f"heads-{name}" if name in found else name] = item["spec"]["template"]["spec"]
        self.assertEqual(set(found), {"coordinator", "worker", "pool", "etcd", "heads-coordinator", "heads-worker"})
        return found

    def test_every_field_is_one_that_kubernetes_knows(self):
        validate = tool("kubernetes-validate")
        for folder in ("base", "pool", "heads"):
            done = subprocess.run([validate, "--strict", self.rendered(folder)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_no_pod_has_more_rights_than_it_uses(self):
        for name, pod in self.pods().items():
            for field in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
                self.assertFalse(pod.get(field), (name, field))
            self.assertIs(pod["automountServiceAccountToken"], False, name)
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"}, name)
            [container] = pod["containers"]
            rights = container["securityContext"]
            self.assertFalse(rights.get("privileged"), name)
            self.assertIs(rights["allowPrivilegeEscalation"], False, name)
            self.assertEqual(rights["capabilities"]["drop"], ["ALL"], name)
            self.assertEqual(set(rights["capabilities"].get("add", [])), ROOTS_RIGHTS if name in WORKERS else set(), name)
            self.assertNotIn("/", container["image"], "registries are the user's to name")
            self.assertEqual(bool(pod["securityContext"].get("runAsNonRoot")), name not in WORKERS, name)

    def test_ranks_have_another_account_than_what_the_coordinator_leaves_in_shared_volumes(self):
        with open(os.path.join(DEPLOY, "containers", "Containerfile")) as file:
            uids = re.findall(r"^RUN useradd --uid (\d+)", file.read(), re.MULTILINE)
        self.assertEqual(len(uids), 4)
        self.assertEqual(len(set(uids[:3])), 3, "of the images of the coordinator, the worker and etcd")

    def test_workers_are_reached_by_workers_alone_and_are_not_replaced_under_their_ranks(self):
        items = {(item["kind"], item["metadata"]["name"]): item for folder in ("base", "pool") for item in self.objects(folder)}
        policy = items["NetworkPolicy", "worker"]["spec"]
        label = {"app.kubernetes.io/name": "muster-worker"}
        self.assertEqual(policy["podSelector"]["matchLabels"], label)
        self.assertEqual(policy["ingress"], [{"from": [{"podSelector": {"matchLabels": label}}]}])
        for kind, name in (("DaemonSet", "worker"), ("StatefulSet", "pool")):
            spec = items[kind, name]["spec"]
            self.assertEqual(spec["updateStrategy"]["type"], "OnDelete")
            self.assertTrue(label.items() <= spec["template"]["metadata"]["labels"].items())

    def heads(self):
        return {(item["kind"], item["metadata"]["name"]): item for item in self.objects("heads")}

    def test_people_reach_the_leader_and_nothing_waits_for_those_that_stand_by_to_be_ready(self):
        items = self.heads()
        spec = items["StatefulSet", "coordinator"]["spec"]
        [container] = spec["template"]["spec"]["containers"]
        self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/leader")
        for probe in ("livenessProbe", "startupProbe"):
            self.assertEqual(container[probe]["httpGet"]["path"], "/healthz")
        self.assertEqual((spec["replicas"], spec["podManagementPolicy"], spec["updateStrategy"]["type"]), (3, "Parallel", "OnDelete"))
        self.assertFalse(items["Service", "coordinator"]["spec"].get("publishNotReadyAddresses"))
        own = items["Service", spec["serviceName"]]["spec"]
        self.assertEqual((own["clusterIP"], own["publishNotReadyAddresses"]), ("None", True))
        self.assertEqual({name for kind, name in items if kind == "PodDisruptionBudget"}, {"etcd"})

    def test_coordinators_and_etcd_have_each_others_names(self):
        items = self.heads()
        env = {each["name"]: each.get("value") for each in
               items["StatefulSet", "coordinator"]["spec"]["template"]["spec"]["containers"][0]["env"]}
        own, *others = env["MUSTER_HOSTS"].split()
        self.assertEqual(own, "$(MUSTER_HEAD).heads.muster.svc")
        self.assertIn("coordinator", others)
        state = env["MUSTER_STATE"]
        done = subprocess.run([os.path.join(harness.BIN, "muster-coordinator"), "--data-dir", self.path("d"), "--state", state],
                              capture_output=True, text=True, timeout=30)
        self.assertIn("--state needs --listen", done.stderr, "its address was read")
        etcd = items["StatefulSet", "etcd"]["spec"]
        [container] = etcd["template"]["spec"]["containers"]
        flags = dict(word.split("=", 1) for word in container["args"])
        members = [f"etcd-{i}" for i in range(etcd["replicas"])]
        self.assertEqual(flags["--initial-cluster"], ",".join(f"{each}=http://{each}.etcd.muster.svc:2380" for each in members))
        self.assertEqual(state, "etcd://" + ",".join(f"{each}.etcd.muster.svc:2379" for each in members) + "/muster")
        self.assertIn("requiredDuringSchedulingIgnoredDuringExecution", etcd["template"]["spec"]["affinity"]["podAntiAffinity"])
        [coordinators, peers] = items["NetworkPolicy", "etcd"]["spec"]["ingress"]
        self.assertEqual([[port["port"] for port in rule["ports"]] for rule in (coordinators, peers)], [[2379], [2380]])

    def services(self, compose_file):
        """Of a compose file, with rights and images that are checked."""
        try:
            import yaml
        except ImportError:
            need(False, "PyYAML is not here")
        with open(os.path.join(DEPLOY, "containers", compose_file)) as file:
            services = yaml.safe_load(file)["services"]
        with open(os.path.join(DEPLOY, "containers", "Containerfile")) as file:
            containerfile = file.read()
        for name, service in services.items():
            self.assertNotIn("privileged", service, name)
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertIn(f" AS {service['build']['target']}\n", containerfile)
        return services

    def test_the_compose_file_of_several_coordinators_has_what_that_of_one_has(self):
        one, several = self.services("compose.yaml"), self.services("heads.yaml")
        self.assertEqual(set(several), {"etcd1", "etcd2", "etcd3", "head1", "head2", "head3", "join-token", "worker1", "worker2"})
        for field in ("cap_add", "shm_size", "stop_grace_period", "volumes"):
            self.assertEqual(several["worker1"][field], one["worker1"][field])
        line = several["worker1"]["command"]
        done = subprocess.run([os.path.join(harness.BIN, "muster-worker"), "init", *line, "--help"], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_compose_file_starts_what_the_images_have(self):
        services = self.services("compose.yaml")
        self.assertEqual(set(services), {"coordinator", "join-token", "worker1", "worker2"})
        self.assertEqual(set(services["worker1"]["cap_add"]), ROOTS_RIGHTS)
        with open(os.path.join(DEPLOY, "containers", "compose.yaml")) as file:
            self.assertNotIn("insecure", file.read())
        # The worker accepts the line; joining comes later.
        line = services["worker1"]["command"]
        done = subprocess.run([os.path.join(harness.BIN, "muster-worker"), "init", *line, "--help"], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    harness.main()

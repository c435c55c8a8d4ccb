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
        for folder in ("base", "pool"):
            for item in self.objects(folder):
                if "template" in item.get("spec", {}):
                    found[item["metadata"]["name"]] = item["spec"]["template"]["spec"]
        self.assertEqual(set(found), {"coordinator", "worker", "pool"})
        return found

    def test_every_field_is_one_that_kubernetes_knows(self):
        validate = tool("kubernetes-validate")
        for folder in ("base", "pool"):
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
            self.assertEqual(set(rights["capabilities"].get("add", [])), set() if name == "coordinator" else ROOTS_RIGHTS, name)
            self.assertNotIn("/", container["image"], "registries are the user's to name")
        self.assertTrue(self.pods()["coordinator"]["securityContext"]["runAsNonRoot"])

    def test_ranks_have_another_account_than_what_the_coordinator_leaves_in_shared_volumes(self):
        with open(os.path.join(DEPLOY, "containers", "Containerfile")) as file:
            uids = re.findall(r"^RUN useradd --uid (\d+)", file.read(), re.MULTILINE)
        self.assertEqual(len(uids), 3)
        self.assertNotEqual(uids[0], uids[1], "of the coordinator's image, and of the worker's")

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

    def test_the_compose_file_starts_what_the_images_have(self):
        try:
            import yaml
        except ImportError:
            need(False, "PyYAML is not here")
        with open(os.path.join(DEPLOY, "containers", "compose.yaml")) as file:
            text = file.read()
        services = yaml.safe_load(text)["services"]
        self.assertEqual(set(services), {"coordinator", "join-token", "worker1", "worker2"})
        with open(os.path.join(DEPLOY, "containers", "Containerfile")) as file:
            containerfile = file.read()
        for name, service in services.items():
            self.assertNotIn("privileged", service, name)
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertIn(f" AS {service['build']['target']}\n", containerfile)
        self.assertEqual(set(services["worker1"]["cap_add"]), ROOTS_RIGHTS)
        self.assertNotIn("insecure", text)
        # The worker accepts the line; joining comes later.
        line = services["worker1"]["command"]
        done = subprocess.run([os.path.join(harness.BIN, "muster-worker"), "init", *line, "--help"], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    harness.main()

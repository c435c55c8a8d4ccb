"""Jobs on NPUs: leased port blocks, environment, rank table, and what a series cannot compute in. The devices are FAKE:
empty files below --device-root, an npu-smi that prints a table, and a hccn.conf; no rank touches a device."""
import json
import os
import socket

import harness
from harness import RUNNING, SUCCEEDED, Case, need

FAKE_NPU_SMI = """#!/bin/sh
# A fake: prints what npu-smi 25.2 prints for two devices of one model.
[ "$*" = info ] || exit 1
cat <<TABLE
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     {model}             | OK            | 91.3        33                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3197 / 65536         |
| 1     {model}             | OK            | 91.3        33                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3197 / 65536         |
TABLE
"""
RANK = """
import json, os, sys, time
table = os.environ.get("RANK_TABLE_FILE")
print(json.dumps({"env": dict(os.environ), "argv": sys.argv[1:], "table": json.load(open(table)) if table else None}))
"""
CONTRACT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ASCEND_RT_VISIBLE_DEVICES",
            "HCCL_IF_IP", "HCCL_CONNECT_TIMEOUT", "HCCL_WHITELIST_DISABLE")


class FakeNpus(Case):
    def setUp(self):
        super().setUp()
        self.cluster = harness.Cluster(self).start()
        self.script = os.path.join(self.directory, "train.py")
        with open(self.script, "w") as file:
            file.write(RANK)

    def add_node(self, number, model, has_addresses=True):
        name = f"node{number}"
        root = os.path.join(self.directory, name)
        os.makedirs(os.path.join(root, "dev"))
        os.makedirs(os.path.join(root, "etc"))
        os.makedirs(os.path.join(root, "bin"))
        for index in range(2):
            open(os.path.join(root, "dev", f"davinci{index}"), "w").close()
        open(os.path.join(root, "dev", "davinci_manager"), "w").close()
        if has_addresses:
            with open(os.path.join(root, "etc", "hccn.conf"), "w") as file:
                file.writelines(f"address_{index}=192.168.{number}.10{index}\nnetmask_{index}=255.255.255.0\n"
                                for index in range(2))
        with open(os.path.join(root, "bin", "npu-smi"), "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
            file.write(FAKE_NPU_SMI.format(model=model))
        self.cluster.case.env["PATH"] = os.path.join(root, "bin") + ":" + os.environ["PATH"]
        self.cluster.add_worker(name, "npu:2", args=["--device-root", root, "--advertise", f"127.0.0.{number}"])
        self.cluster.case.env["PATH"] = os.environ["PATH"]

    def said(self, job, ranks, attempt=0):
        logs, _ = self.cluster.api.logs(job)
        return [json.loads(logs[(attempt, rank, 1)]) for rank in range(ranks)]

    def test_a_torch_npu_run_line_on_two_nodes_gets_ports_addresses_and_a_rank_table(self):
        self.add_node(1, "910B2")
        self.add_node(2, "910B2")
        models = {device.model for view in self.cluster.nodes().values() for device in view.record.facts.devices}
        self.assertEqual(models, {"910B2"})
        done = self.cluster.jobctl(
            "run", "--", "torch_npu_run", "--nnodes=2", "--node_rank=0", "--nproc_per_node=2", "--master_addr=10.0.0.1",
            "--master_port=29500", "--enable_tiered_parallel_tcpstore=true", self.script, "--lr", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the coordinator decides instead of --node-rank, --master-addr, --master-port, "
                      "--enable-tiered-parallel-tcpstore", done.stderr)
        ranks = self.said(1, 4)
        for number, rank in enumerate(ranks):
            node = number // 2 + 1
            self.assertEqual({name: rank["env"].get(name) for name in CONTRACT}, {
                "RANK": str(number), "LOCAL_RANK": str(number % 2), "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2",
                "GROUP_RANK": str(node - 1), "ASCEND_RT_VISIBLE_DEVICES": "0,1", "HCCL_IF_IP": f"127.0.0.{node}",
                "HCCL_CONNECT_TIMEOUT": "600", "HCCL_WHITELIST_DISABLE": "1"})
            self.assertEqual(rank["argv"], ["--lr", "1"])
            self.assertEqual(rank["table"], {
                "version": "1.0", "server_count": "2", "status": "completed", "server_list": [
                    {"server_id": f"127.0.0.{server}", "host_nic_ip": "reserve", "device": [
                        {"device_id": str(index), "device_ip": f"192.168.{server}.10{index}",
                         "rank_id": str((server - 1) * 2 + index)} for index in range(2)]} for server in (1, 2)]})
        blocks = [int(rank["env"]["HCCL_IF_BASE_PORT"]) for rank in ranks]
        self.assertEqual(blocks[0], blocks[1])
        self.assertNotEqual(blocks[0], blocks[2], "both workers are on this host, and share its ports")
        for block in blocks:
            self.assertTrue(60000 <= block <= 65504 and (block - 60000) % 32 == 0, block)

    def test_a_worker_warns_of_ports_that_the_kernel_may_give_away(self):
        def setting(name):
            with open(f"/proc/sys/net/ipv4/{name}") as file:
                return file.read().split()
        last = int(setting("ip_local_port_range")[1])
        need(last >= 60000 and not setting("ip_local_reserved_ports"), "needs the kernel's default range")
        self.add_node(1, "910B2")
        self.assertIn(f'the kernel may give ports of npu ranks to outgoing connections ports=60000-{last} '
                      'fix="sysctl -w net.ipv4.ip_local_reserved_ports=60000-65535"',
                      self.cluster.workers["node1"].output())

    def test_two_jobs_on_one_host_never_share_a_block_and_free_it_when_they_end(self):
        self.add_node(1, "910B2", has_addresses=False)
        with open(self.script, "a") as file:
            file.write("sys.stdout.flush()\ntime.sleep(600)\n")
        jobs = [self.cluster.submit("--", "torch_npu_run", "--nproc_per_node", "1", self.script) for _ in range(2)]
        blocks = []
        for job in jobs:
            self.cluster.wait_for(job, RUNNING)
            harness.wait_until(lambda: self.cluster.api.logs(job)[0].get((0, 0, 1), b"").endswith(b"\n"), "it prints")
            rank, = self.said(job, 1)
            self.assertIsNone(rank["table"], "the addresses of the devices are not known")
            blocks.append(int(rank["env"]["HCCL_IF_BASE_PORT"]))
        self.assertEqual(len(set(blocks)), 2, blocks)
        # The shims keep the claims, not the worker.
        worker = self.cluster.workers["node1"]
        harness.kill9(worker.process.pid)
        worker.process.wait()
        for block in blocks:
            self.assertFalse(self.may_claim(block), block)
        worker.start()
        self.cluster.wait_nodes("node1")
        for job, block in zip(jobs, blocks):
            self.cluster.jobctl("cancel", job)
            self.cluster.wait_over(job)
            harness.wait_until(lambda: self.may_claim(block), "its block is free")

    def test_a_job_waits_while_no_block_is_free_and_is_told_why(self):
        self.add_node(1, "910B2")
        claims = []
        for block in range(60000, 65505, 32):
            claims.append(socket.socket(socket.AF_UNIX))
            self.addCleanup(claims[-1].close)
            claims[-1].bind(f"\0muster/npu/{block}")
        job = self.cluster.submit("--", "torch_npu_run", "--nproc_per_node", "2", self.script)
        told = harness.wait_until(lambda: next((line for line in self.cluster.jobctl("events", job).stdout.splitlines()
                                                if "no block of" in line), None), "it is told why it waits")
        self.assertIn("node node1: no block of 32 ports for npu ranks is free in 60000-65535: other attempts on this host "
                      "lease 173, other programs have bound ports in 0; fix: end what binds them (ss -tanp), or wait until "
                      "other npu jobs on this host end", told)
        claims[100].close()  # above the ports that the kernel gives to outgoing connections
        record = self.cluster.wait_for(job, SUCCEEDED)
        self.assertGreater(len(record.attempts), 1)
        rank, _ = self.said(job, 2, record.attempts[-1].number)
        self.assertEqual(rank["env"]["HCCL_IF_BASE_PORT"], str(60000 + 100 * 32))

    @staticmethod
    def may_claim(block):
        with socket.socket(socket.AF_UNIX) as claim:
            try:
                claim.bind(f"\0muster/npu/{block}")
                return True
            except OSError:
                return False

    def test_bf16_is_refused_at_submit_where_no_device_computes_in_it(self):
        self.add_node(1, "910A")
        line = ("--", "accelerate", "launch", "--num_processes", "2", "--mixed_precision", "bf16", self.script)
        refused = self.cluster.jobctl("run", *line, check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("[JC1416]", refused.stderr)
        self.assertIn("node1 cannot compute in bf16: its npu 0 is a 910A (Atlas training (910A))", refused.stderr)
        self.assertIn("declare fp16 or no (float32) instead of bf16", refused.stderr)
        self.assertEqual(len(self.cluster.api.list()), 0, "nothing is queued")
        self.add_node(2, "910B2")
        done = self.cluster.jobctl("run", *line)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({part.node for part in self.cluster.api.record(1).attempts[0].parts}, {"node2"})


if __name__ == "__main__":
    harness.main()

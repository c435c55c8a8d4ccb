"""What a rank sees: the full set of torchrun's variables and Muster's own (docs/protocol.md), on every rank."""
import json
import os
import socket

import harness
from harness import Case

DUMP = """
import json, os, signal, resource
ignored = [n for n in range(1, 32) if n not in (9, 19) and signal.getsignal(n) == signal.SIG_IGN]
print("DUMP " + json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "fds": sorted(
    int(fd) for fd in os.listdir("/proc/self/fd")), "sid": os.getsid(0), "pid": os.getpid(), "ignored": ignored,
    "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)}))
"""


class RankEnvironment(Case):
    def dump(self, muster, *args, env=None, ranks=2):
        done = muster.jobctl("run", "-n", ranks, *args, "--", harness.PYTHON, "-S", "-c", DUMP, env=env)
        dumps = [json.loads(line.split("DUMP ", 1)[1]) for line in done.stdout.splitlines() if "DUMP " in line]
        self.assertEqual(len(dumps), ranks, done.stdout + done.stderr)
        return sorted(dumps, key=lambda dump: int(dump["env"]["RANK"]))

    def test_has_the_complete_torchrun_set(self):
        for rank, dump in enumerate(self.dump(self.private(), "--restarts", "2")):
            env = dump["env"]
            expected = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                        "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "default", "ROLE_RANK": str(rank),
                        "ROLE_WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "2",
                        "TORCHELASTIC_USE_AGENT_STORE": "False", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
            self.assertEqual({key: env.get(key) for key in expected}, expected)
            self.assertTrue(env["TORCHELASTIC_RUN_ID"])
            self.assertTrue(os.path.isabs(env["TORCHELASTIC_ERROR_FILE"]))
            self.assertGreaterEqual(int(env["OMP_NUM_THREADS"]), 1)
            self.assertNotIn("TORCHELASTIC_TIMER_FILE", env)
            self.assertTrue(1024 <= int(env["MASTER_PORT"]) < 65536)

    def test_has_musters_own_variables(self):
        dumps = self.dump(self.private(), "--name", "envs")
        for dump in dumps:
            env = dump["env"]
            self.assertEqual(env["MUSTER_ATTEMPT"], "0")
            self.assertTrue(env["MUSTER_JOB_NAME"].startswith("envs"))
            self.assertTrue(env["MUSTER_JOB_ID"].isdigit())
            self.assertEqual(env["PYTHONUNBUFFERED"], "1")
            self.assertEqual(env["CUDA_DEVICE_ORDER"], "PCI_BUS_ID")
            self.assertLess(len(env["MUSTER_SOCKET"]), 108)
            for name in ("MUSTER_CHECKPOINT_DIR", "MUSTER_TENSORBOARD_DIR", "MUSTER_DIAGNOSTICS_DIR"):
                self.assertTrue(os.path.isabs(env[name]), name)
            self.assertNotIn("MUSTER_RESUME_FROM", env)

    def test_keeps_what_the_user_set(self):
        user = {"OMP_NUM_THREADS": "7", "PYTHONUNBUFFERED": "", "GLOO_SOCKET_IFNAME": "lo"}
        for dump in self.dump(self.private(), env=user):
            self.assertEqual({key: dump["env"].get(key) for key in user}, user)

    def test_comes_from_the_client_not_from_the_daemons(self):
        muster = self.private()
        muster.jobctl("up", env={"ONLY_DAEMON": "1"})
        for dump in self.dump(muster, env={"ONLY_CLIENT": "1"}):
            self.assertEqual(dump["env"].get("ONLY_CLIENT"), "1")
            self.assertNotIn("ONLY_DAEMON", dump["env"])

    def test_clean_env_leaves_the_clients_environment_behind(self):
        dumps = self.dump(self.private(), "--clean-env", "-e", f"PATH={os.environ['PATH']}", env={"ONLY_CLIENT": "1"})
        for dump in dumps:
            self.assertNotIn("ONLY_CLIENT", dump["env"])
            self.assertIn("RANK", dump["env"])

    def test_has_no_stray_descriptors_sessions_of_its_own_and_default_signals(self):
        dumps = self.dump(self.private())
        for dump in dumps:
            # 0, 1, 2 and the directory that listdir itself has open.
            self.assertLessEqual(len(dump["fds"]), 4, dump["fds"])
            self.assertEqual(dump["sid"], dump["pid"])
            self.assertEqual([n for n in dump["ignored"] if n not in (13, 25)], [])  # Python ignores these two itself
        self.assertNotEqual(dumps[0]["sid"], dumps[1]["sid"])

    def test_local_rank_in_an_argument_is_replaced(self):
        done = self.private().jobctl("run", "-n", "2", "--", "echo", "--local-rank=${local_rank}", "r${rank}")
        self.assertIn("--local-rank=0 r0", done.stdout)
        self.assertIn("--local-rank=1 r1", done.stdout)

    def test_the_master_port_is_held_for_rank_0_alone(self):
        script = ("import os, socket\n"
                  "port = int(os.environ['MASTER_PORT'])\n"
                  "plain = socket.socket()\n"
                  "try:\n    plain.bind(('0.0.0.0', port)); print('plain bind: taken')\n"
                  "except OSError: print('plain bind: refused')\n"
                  "reuse = socket.socket(); reuse.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                  "reuse.bind(('0.0.0.0', port)); reuse.listen(); print('trainer listens')\n")
        done = self.private().jobctl("run", "-n", "1", "--", harness.PYTHON, "-S", "-c", script)
        self.assertIn("plain bind: refused", done.stdout)
        self.assertIn("trainer listens", done.stdout)

    def test_the_error_file_is_read_and_shown(self):
        script = ("import json, os, sys\n"
                  "json.dump({'message': {'message': 'ValueError: the moon is full', 'extraInfo': {'timestamp': '1'}}},"
                  " open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
                  "sys.exit(4)\n")
        muster = self.private()
        done = muster.jobctl("run", "-n", "1", "--", harness.PYTHON, "-S", "-c", script, check=False)
        self.assertEqual(done.returncode, 4)
        self.assertIn("the moon is full", done.stderr)
        self.assertIn("the moon is full", muster.jobctl("show", "@last").stdout)

    def test_secrets_are_redacted_where_they_are_shown(self):
        muster = self.private()
        muster.jobctl("run", "-n", "1", "--name", "hush", "--", "true", env={"HF_TOKEN": "tok-12345-secret"})
        for args in (("show", "@last"), ("show", "@last", "-o", "json"), ("show", "@last", "-o", "yaml")):
            shown = muster.jobctl(*args).stdout
            self.assertNotIn("tok-12345-secret", shown, args)


if __name__ == "__main__":
    harness.main()

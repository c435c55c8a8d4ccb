"""Python trainers, unchanged: torchrun-style scripts and users' existing launcher command lines."""
import importlib.util
import os

import harness
from harness import Case, need

ALLREDUCE = harness.rank_script("allreduce.py")


class LauncherLines(Case):
    def setUp(self):
        super().setUp()
        need(importlib.util.find_spec("torch"), "needs the Python package torch")
        self.env["PATH"] = os.path.dirname(harness.PYTHON) + os.pathsep + self.env["PATH"]

    def two_ranks(self, *line):
        done = self.private().jobctl(*line, timeout=120)
        self.assertEqual(done.stdout.count("sum 3"), 2, done.stdout + done.stderr)
        return done

    def test_a_torchrun_style_script_runs_as_it_is(self):
        self.two_ranks("run", "-n", "2", "--", harness.PYTHON, ALLREDUCE)

    def test_a_torchrun_line_is_taken_and_what_is_overridden_is_said(self):
        done = self.two_ranks("run", "--", "torchrun", "--nproc-per-node", "2", "--rdzv_backend=c10d",
                              "--rdzv-endpoint", "localhost:29400", ALLREDUCE)
        self.assertIn("rdzv", done.stderr)

    def test_python_m_torch_distributed_run_is_the_same(self):
        self.two_ranks("run", "--", harness.PYTHON, "-m", "torch.distributed.run", "--nproc_per_node=2", ALLREDUCE)

    def test_an_accelerate_line_is_taken(self):
        self.two_ranks("run", "--", "accelerate", "launch", "--cpu", "--num_processes", "2", ALLREDUCE)

    def test_an_accelerate_configuration_is_read(self):
        path = self.path("default_config.yaml")
        with open(path, "w") as file:
            file.write("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nnum_processes: 2\n"
                       "num_machines: 1\nmixed_precision: 'no'\nuse_cpu: true\nmachine_rank: 0\n")
        self.two_ranks("run", "--accelerate-config", path, "--", harness.PYTHON, ALLREDUCE)

    def test_a_flag_that_no_launcher_knows_is_refused_with_the_nearest(self):
        done = self.private().jobctl("run", "--", "torchrun", "--nproc-per-nod", "2", ALLREDUCE, check=False)
        self.assert_error(done, "nproc-per-nod", code=2)


if __name__ == "__main__":
    harness.main()

"""muster.save_checkpoint and its like: what lies in the directory at each moment, alone and with several ranks."""
import importlib.util
import os

from support import Case, main, need, wait_until

HAS_TORCH = importlib.util.find_spec("torch") is not None
WRITER = """
import os, sys, muster
def write(target):
    (target / "inner").mkdir()
    (target / "inner" / "state.txt").write_text(str(step))
    assert not (target.parent / f"step-{step}").exists()
"""


def tree(root):
    return sorted(os.path.relpath(os.path.join(where, name), root) for where, _, names in os.walk(root) for name in names)


class Directories(Case):
    def setUp(self):
        super().setUp()
        self.checkpoints = self.path("checkpoints")

    def inside(self, script, **env):
        return self.run_script(script, **{"MUSTER_CHECKPOINT_DIR": self.checkpoints, "RANK": "0", **env})


class Alone(Directories):
    def test_a_checkpoint_appears_whole_and_the_worker_gets_a_hint(self):
        worker = self.worker()
        out, _ = self.inside(WRITER + "step = 7\nprint(muster.save_checkpoint(write, step))")
        self.assertEqual(out.strip(), os.path.join(self.checkpoints, "step-7"))
        self.assertEqual(tree(self.checkpoints), ["step-7/inner/state.txt"])
        self.assertEqual(worker.of("checkpoint"), [{"type": "checkpoint", "step": 7}])

    def test_every_rank_may_call_it_and_rank_0_writes(self):
        self.worker()
        out, _ = self.inside(WRITER + "step = 7\nprint(muster.save_checkpoint(write, step))", RANK="1")
        self.assertEqual(out, "None\n")
        self.assertFalse(os.path.exists(self.checkpoints))

    def test_a_failed_save_raises_and_leaves_nothing(self):
        self.worker()
        out, _ = self.inside("""
            import muster
            def write(target):
                (target / "half").write_text("x")
                raise OSError(28, "No space left on device")
            try:
                muster.save_checkpoint(write, 7)
            except OSError as error:
                print(error)
            """)
        self.assertEqual(out, "[Errno 28] No space left on device\n")
        self.assertEqual(os.listdir(self.checkpoints), [])

    def test_what_a_killed_save_left_is_replaced_and_a_saved_step_stays(self):
        self.worker()
        os.makedirs(os.path.join(self.checkpoints, "step-7.tmp", "inner"))
        with open(os.path.join(self.checkpoints, "step-7.tmp", "stale"), "w") as file:
            file.write("x")
        out, _ = self.inside(WRITER + "step = 7\nmuster.save_checkpoint(write, 7)\n"
                             "print(muster.save_checkpoint(lambda target: 1 / 0, 7).name)")
        self.assertEqual(out, "step-7\n")
        self.assertEqual(tree(self.checkpoints), ["step-7/inner/state.txt"])

    def test_another_state_under_a_saved_step_is_named(self):
        self.worker()
        os.makedirs(os.path.join(self.checkpoints, "step-7"))
        save = WRITER + "for step in (7, 8, 8):\n    muster.save_checkpoint(write, step)"
        self.assertIn("step-7 was saved already, and what is there now stays", self.inside(save)[1])
        self.assertEqual(tree(self.checkpoints), ["step-8/inner/state.txt"])
        _, err = self.inside(WRITER + "step = 7\nmuster.save_checkpoint(write, 7)", MUSTER_RESUME_FROM="/x/step-7")
        self.assertEqual(err, "", "it is what the attempt resumed from")
        _, err = self.inside(WRITER + "step = 9\nfor _ in range(2):\n    muster.save_checkpoint(write, 9)")
        self.assertEqual(err, "", "the last save once more")

    def test_a_step_that_is_none_is_refused(self):
        self.worker()
        out, _ = self.inside("""
            import muster
            for step in (-1, 1.5, "7", None):
                try:
                    muster.save_checkpoint({}, step)
                except ValueError as error:
                    print(error)
            """)
        self.assertEqual(out.count("pass a whole number from 0"), 4, out)

    def test_a_save_that_would_lose_something_raises(self):
        self.worker()
        script = """
            import muster
            try:
                muster.save_checkpoint(lambda target: None, 7, together=%s)
            except (OSError, RuntimeError) as error:
                print(error)
            """
        self.assertIn("nothing was written", self.inside(script % False)[0])
        self.assertIn("init_process_group", self.inside(script % True, WORLD_SIZE="2")[0])
        self.assertEqual(tree(self.checkpoints), [])

    def test_a_lower_step_is_kept_and_named(self):
        out, err = self.run_script(WRITER + f"for step in (200, 300, 10):\n    print(muster.save_checkpoint(write, step, "
                                   f"directory={self.checkpoints!r}).name)", inside=False)
        self.assertEqual(out, "step-200\nstep-300\nstep-10\n")
        self.assertIn("step-10 is lower than step-300, from which a job would resume", err)
        self.assertEqual(sorted(os.listdir(self.checkpoints)), ["step-10", "step-200", "step-300"])

    def test_inside_only_what_is_committed_is_removed(self):
        worker = self.worker()
        process = self.start(WRITER + """
for step in range(1, 5):
    muster.save_checkpoint(write, step, keep=2)
print("saved", flush=True)
sys.stdin.readline()
step = 5
while len(muster._process.reporter.committed) < 2: pass
muster.save_checkpoint(write, step, keep=2)
""", MUSTER_CHECKPOINT_DIR=self.checkpoints, RANK="0")
        self.assertEqual(process.stdout.readline(), "saved\n")
        self.assertEqual(sorted(os.listdir(self.checkpoints)), ["step-1", "step-2", "step-3", "step-4"])
        wait_until(lambda: worker.of("hello"), "it is there")
        for step in (1, 3):
            worker.tell(type="committed", step=step)
        process.stdin.write("\n")
        process.stdin.flush()
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))
        self.assertEqual(sorted(os.listdir(self.checkpoints)), ["step-2", "step-4", "step-5"])

    def test_outside_the_newest_stay_in_the_given_directory_and_the_latest_is_found(self):
        out, _ = self.run_script(WRITER + f"""
where = {self.checkpoints!r}
print(muster.latest_checkpoint(where))
for step in (8, 9, 10, 11):
    muster.save_checkpoint(write, step, directory=where, keep=2)
os.mkdir(where + "/step-12.tmp")
os.mkdir(where + "/step-013")
print(muster.latest_checkpoint(where).name)
""", inside=False)
        self.assertEqual(out, "None\nstep-11\n")
        self.assertEqual(sorted(os.listdir(self.checkpoints)), ["step-013", "step-10", "step-11", "step-12.tmp"])

    def test_inside_the_attempt_resumes_from_what_the_worker_fetched(self):
        self.worker()
        os.makedirs(os.path.join(self.checkpoints, "step-9"))
        script = f"import muster\nprint(muster.latest_checkpoint({self.checkpoints!r}))"
        self.assertEqual(self.inside(script)[0], "None\n")
        self.assertEqual(self.inside(script, MUSTER_RESUME_FROM="/x/step-5")[0], "/x/step-5\n")


class WithTorch(Directories):
    def setUp(self):
        super().setUp()
        need(HAS_TORCH, "needs the Python package torch")

    def two_ranks(self, script, nodes=1, **env):
        """Two processes with a gloo group, on one node or as if on two; (stdout, stderr, exit code) of each."""
        self.worker()
        whole = ("import torch.distributed as dist, os, muster\n"
                 f"dist.init_process_group('gloo', init_method='file://{self.path('store')}',"
                 " rank=int(os.environ['RANK']), world_size=2)\nrank = dist.get_rank()\n" + script +
                 "\ndist.destroy_process_group()\n")
        started = []
        for rank in range(2):
            node = rank if nodes == 2 else 0
            started.append(self.start(whole, RANK=rank, LOCAL_RANK=0 if nodes == 2 else rank,
                                      GROUP_RANK=node, GROUP_WORLD_SIZE=nodes,
                                      MUSTER_CHECKPOINT_DIR=self.path(f"node{node}"), GLOO_SOCKET_IFNAME="lo", **env))
        results = [process.communicate(timeout=120) for process in started]
        return [(out, err, process.returncode) for (out, err), process in zip(results, started)]

    def test_a_mapping_is_saved_and_loaded_by_torch(self):
        self.worker()
        script = """
            import torch, muster
            model = torch.nn.Linear(3, 2)
            muster.save_checkpoint({"model": model.state_dict(), "step": 5}, 5)
            """
        self.inside(script)
        self.assertEqual(tree(self.checkpoints), ["step-5/state.pt"])
        out, _ = self.inside("import muster\nstate = muster.load_checkpoint()\nprint(state['step'], list(state['model']))",
                             MUSTER_RESUME_FROM=os.path.join(self.checkpoints, "step-5"))
        self.assertEqual(out, "5 ['weight', 'bias']\n")

    def test_ranks_save_together_and_each_node_has_a_part(self):
        script = ("path = muster.save_checkpoint(lambda target: (target / f'rank{rank}').write_text('x'), 3, together=True)\n"
                  "dist.barrier()\nprint(path.name, sorted(os.listdir(path)))")
        for nodes, expected in ((1, [["rank0", "rank1"]] * 2),
                                (2, [["part-00000-of-00002.json", "rank0"], ["part-00001-of-00002.json", "rank1"]])):
            with self.subTest(nodes=nodes):
                for (out, err, code), files in zip(self.two_ranks(script, nodes), expected):
                    self.assertEqual((out, code), (f"step-3 {files}\n", 0), err)
                self.doCleanups()
                self.setUp()

    def test_a_rank_that_cannot_write_fails_the_save_on_all(self):
        results = self.two_ranks("""
def write(target):
    (target / f'rank{rank}').write_text('x')
    if rank == 1:
        raise OSError('disk of rank 1')
try:
    muster.save_checkpoint(write, 3, together=True)
except OSError as error:
    print(error)
dist.barrier()
print(os.listdir(os.environ['MUSTER_CHECKPOINT_DIR']))
""")
        self.assertEqual(results[0][0], "step-3 was not saved: another rank could not write its files\n[]\n", results)
        self.assertEqual(results[1][0], "disk of rank 1\n[]\n")

    def test_ranks_that_save_different_steps_are_told(self):
        results = self.two_ranks("""
try:
    muster.save_checkpoint(lambda target: (target / 'x').write_text('x'), 3 + rank, together=True)
except ValueError as error:
    print(error)
""")
        self.assertEqual([out for out, *_ in results], [
            f"the ranks save different steps, from 3 to 4; this one step {step}\n" for step in (3, 4)], results)

    def test_ranks_stop_together(self):
        results = self.two_ranks("""
import signal
for step in range(10):
    if rank == 1 and step == 4:
        muster.should_stop()
        os.kill(os.getpid(), signal.SIGTERM)
    if muster.should_stop(together=True):
        break
print(step)
""")
        self.assertEqual([out for out, *_ in results], ["4\n", "4\n"], results)

    def test_a_sharded_state_without_numpy_is_refused_at_once(self):
        self.worker()
        _, err = self.run_script("""
            import sys
            sys.modules["numpy"] = None
            import muster
            try:
                muster.save_distributed_checkpoint({}, 6)
            except ImportError as error:
                print(error, file=sys.stderr)
""")
        self.assertIn("through numpy; fix: pip install numpy", err)

    def test_a_sharded_state_travels_by_distributed_checkpoint(self):
        need(importlib.util.find_spec("numpy"), "needs the Python package numpy")
        save = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
mesh = init_device_mesh('cpu', (2,))
whole = torch.arange(8.0)
state = {'w': distribute_tensor(whole, mesh, [Shard(0)]), 'step': 6}
"""
        results = self.two_ranks(save + "print(muster.save_distributed_checkpoint(state, 6).name)", nodes=2)
        self.assertEqual([out for out, *_ in results], ["step-6\n", "step-6\n"], results)
        resume = self.path("resume", "step-6")  # as the worker fetches it: the files of all parts
        os.makedirs(resume)
        for node in (0, 1):
            for name in os.listdir(self.path(f"node{node}", "step-6")):
                os.link(self.path(f"node{node}", "step-6", name), os.path.join(resume, name))
        out, err = self.run_script("""
            import torch, muster
            state = {"w": torch.zeros(8), "step": 0}
            print(muster.load_distributed_checkpoint(state).name, state["w"].tolist(), state["step"])
            """, MUSTER_RESUME_FROM=resume, RANK="0")
        self.assertEqual(out, f"step-6 {[float(value) for value in range(8)]} 6\n", err)


if __name__ == "__main__":
    main()

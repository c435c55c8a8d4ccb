"""The callbacks, in the libraries themselves, against a worker's side of the trainer socket. A library that is not
installed skips its tests."""
import importlib.util
import os
import threading

from support import Case, free_port, main, need, wait_until

MODEL = """
import os, signal, torch, muster

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        x = torch.full((4,), index / 64)
        return {"x": x, "labels": x.sum()}
"""


class Integration(Case):
    library = ""

    def setUp(self):
        super().setUp()
        need(importlib.util.find_spec("torch"), "needs the Python package torch")
        need(importlib.util.find_spec(self.library), f"needs the Python package {self.library}")
        self.checkpoints = self.path("checkpoints")

    def rank(self, script, **env):
        place = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(),
                 "GLOO_SOCKET_IFNAME": "lo", "HOME": self.directory, "MUSTER_CHECKPOINT_DIR": self.checkpoints}
        return self.run_script(MODEL + script, **{**place, **env})[0]

    def assert_step_times(self, worker, last):
        """Each step is in one window, whose parts are its whole."""
        parts = {name: self.values(worker, f"time/{name}") for name in ("step", "data_wait", "compute", "checkpoint")}
        self.assertEqual(max(parts["step"]), last)
        for step, whole in parts.pop("step").items():
            self.assertGreater(whole, 0)
            self.assertAlmostEqual(sum(part[step] for part in parts.values()), whole)

    def values(self, worker, name):
        return {step: value for each, step, value in worker.points if each == name}

    def last_progress(self, worker):
        return (worker.of("progress")[-1]["step"], worker.of("progress")[-1]["total"])

    def resume(self, step):
        return {"MUSTER_RESUME_FROM": os.path.join(self.checkpoints, f"step-{step}"),
                "MUSTER_ATTEMPT": "2", "MUSTER_CHECKPOINT_DIR": self.path("second")}


class Transformers(Integration):
    library = "transformers"
    SCRIPT = """
from transformers import Trainer, TrainingArguments, TrainerCallback
from muster.integrations.transformers import MusterCallback, checkpoint_to_resume

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        return {"loss": (self.linear(x).squeeze(-1) - labels).square().mean()}

class StopAt(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        if state.global_step == int(os.environ.get("STOP_AT", -1)):
            os.kill(os.getpid(), signal.SIGTERM)

arguments = TrainingArguments(OUT, max_steps=20, per_device_train_batch_size=4, logging_steps=5, save_steps=8,
                              save_total_limit=1, report_to=[], use_cpu=True, disable_tqdm=True)
trainer = Trainer(Model(), arguments, train_dataset=Data(), callbacks=[MusterCallback(check_every=2), StopAt()])
trainer.train(resume_from_checkpoint=checkpoint_to_resume())
print("steps", trainer.state.global_step)
"""

    def train(self, name, **env):
        return self.rank(f"OUT = {self.path(name)!r}\n" + self.SCRIPT, **env)

    def test_it_logs_progresses_and_hands_over_checkpoints(self):
        worker = self.worker()
        self.assertIn("steps 20", self.train("out"))
        self.assertEqual(sorted(self.values(worker, "loss")), [5, 10, 15, 20])
        self.assertEqual(self.last_progress(worker), (20, 20))
        self.assert_step_times(worker, 20)
        self.assertEqual(sorted(os.listdir(self.checkpoints)), ["step-16", "step-20", "step-8"])
        self.assertIn("trainer_state.json", os.listdir(os.path.join(self.checkpoints, "step-8")))

    def test_it_stops_with_a_checkpoint_and_resumes(self):
        worker = self.worker()
        self.assertIn("steps 4", self.train("out", STOP_AT="3"))
        self.assertEqual(os.listdir(self.checkpoints), ["step-4"])
        self.assertEqual(self.last_progress(worker), (4, 20))
        self.assertIn("steps 20", self.train("second-out", **self.resume(4)))
        self.assertEqual(sorted(os.listdir(self.path("second"))), ["step-16", "step-20", "step-8"])
        self.assertEqual(worker.of("progress")[-1]["step"], 20)

    def test_outside_muster_it_changes_nothing(self):
        out, _ = self.run_script(MODEL + f"OUT = {self.path('out')!r}\n" + self.SCRIPT, inside=False, HOME=self.directory)
        self.assertIn("steps 20", out)


class Lightning(Integration):
    library = "lightning"
    SCRIPT = """
import warnings
warnings.simplefilter("ignore")
import lightning.pytorch as pl
from muster.integrations.lightning import MusterCallback, checkpoint_to_resume

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        if self.global_step == int(os.environ.get("STOP_AT", -1)):
            os.kill(os.getpid(), signal.SIGTERM)
        loss = (self.linear(batch["x"]).squeeze(-1) - batch["labels"]).square().mean()
        self.log("loss", loss)
        return loss
    def validation_step(self, batch, index):
        self.log("val_loss", (self.linear(batch["x"]).squeeze(-1) - batch["labels"]).square().mean())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

loader = torch.utils.data.DataLoader(Data(), batch_size=8)
trainer = pl.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, log_every_n_steps=4,
                     enable_progress_bar=False, enable_model_summary=False,
                     callbacks=[MusterCallback(save_every=10, check_every=2)])
trainer.fit(Model(), loader, loader, ckpt_path=checkpoint_to_resume())
print("steps", trainer.global_step)
"""

    def test_it_logs_progresses_and_saves(self):
        worker = self.worker()
        self.assertIn("steps 24", self.rank(self.SCRIPT))
        self.assertEqual(sorted(self.values(worker, "loss")), [4, 8, 12, 16, 20, 24])
        self.assertEqual(sorted(self.values(worker, "val_loss")), [8, 16, 24])  # when it was measured
        self.assertEqual(self.last_progress(worker), (24, 24))
        self.assert_step_times(worker, 24)
        self.assertEqual(sorted(os.listdir(self.checkpoints)), ["step-10", "step-20", "step-24"])

    def test_it_stops_with_a_checkpoint_and_resumes(self):
        worker = self.worker()
        self.assertIn("steps 6", self.rank(self.SCRIPT, STOP_AT="5"))
        self.assertEqual(os.listdir(self.checkpoints), ["step-6"])
        self.assertIn("steps 24", self.rank(self.SCRIPT, **self.resume(6)))
        self.assertEqual(sorted(os.listdir(self.path("second"))), ["step-10", "step-20", "step-24"])
        wait_until(lambda: 24 in self.values(worker, "loss"), lambda: worker.points)

    def test_outside_muster_it_changes_nothing(self):
        self.assertIn("steps 24", self.run_script(MODEL + self.SCRIPT, inside=False, HOME=self.directory)[0])


class Accelerate(Integration):
    library = "accelerate"
    SCRIPT = """
from accelerate import Accelerator
from muster.integrations.accelerate import MusterTracker
accelerator = Accelerator(cpu=True, log_with=MusterTracker())
accelerator.init_trackers("run", config={"lr": 0.1})
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
found = muster.latest_checkpoint()
if found:
    accelerator.load_state(str(found))
    print("resumed", float(accelerator.unwrap_model(model).weight.sum()))
for step in range(3):
    accelerator.log({"loss": torch.tensor(float(step)), "note": "text"}, step=step)
print("sum", float(accelerator.unwrap_model(model).weight.sum()))
muster.save_checkpoint(accelerator.save_state, 3, together=True)
assert accelerator.get_tracker("muster", unwrap=True) is muster
accelerator.end_training()
"""

    def test_it_logs_and_its_state_is_saved_and_resumed(self):
        worker = self.worker()
        saved = self.rank(self.SCRIPT).split()[-1]
        self.assertEqual(worker.points, [("loss", 0, 0.0), ("loss", 1, 1.0), ("loss", 2, 2.0)])
        self.assertEqual(os.listdir(self.checkpoints), ["step-3"])
        self.assertIn(f"resumed {saved}\n", self.rank(self.SCRIPT, **self.resume(3)))

    ASKED = """
import time
from accelerate import Accelerator
from muster.integrations.accelerate import checkpoint_if_asked
accelerator = Accelerator(cpu=True)
model = accelerator.prepare(torch.nn.Linear(4, 1))
muster.should_checkpoint()  # the worker knows of it
for step in range(1, 10_000):
    time.sleep(0.01)
    stops = checkpoint_if_asked(accelerator, step)
    if os.path.isdir(os.environ["MUSTER_CHECKPOINT_DIR"]):
        break
print("saved at", step, stops)
"""

    def test_its_state_is_saved_when_the_job_is_asked_to_give_way(self):
        worker = self.worker()

        def ask():
            wait_until(lambda: worker.of("hello"), "it is there")
            worker.tell(type="checkpoint_request", reason="another job")
        asking = threading.Thread(target=ask)
        asking.start()
        said = self.rank(self.ASKED).split()
        asking.join()
        self.assertEqual(said[:2] + said[3:], ["saved", "at", "False"])
        self.assertEqual(os.listdir(self.checkpoints), [f"step-{said[2]}"])

    LOOP = """
import time
from accelerate import Accelerator
from muster.integrations.accelerate import MusterTracker
class Slow(Data):
    def __getitem__(self, index):
        time.sleep(0.005)
        return super().__getitem__(index)
accelerator = Accelerator(cpu=True, log_with=MusterTracker(), gradient_accumulation_steps=2)
time.sleep(0.5)
model, head = torch.nn.Linear(4, 1), torch.nn.Linear(1, 1)
loader = torch.utils.data.DataLoader(Slow(), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), loader)
other, criterion = torch.optim.SGD(head.parameters(), lr=0.01), torch.nn.MSELoss()
def evaluate():
    model.eval()
    with torch.no_grad():
        criterion(model(torch.zeros(2, 4)), torch.zeros(2, 1))
        time.sleep(0.5)
        model(torch.zeros(2, 4))
    model.train()
for step, batch in enumerate(muster.steps(loader) if os.environ.get("TOLD") else loader):
    with accelerator.accumulate(model):
        loss = criterion(head(model(batch["x"])).squeeze(-1), batch["labels"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        other.step()
    if step == 7:
        evaluate()
        muster.save_checkpoint(lambda target: (time.sleep(0.2), (target / "file").write_text("")), step)
"""

    def test_a_loop_that_tells_nothing_has_step_times(self):
        worker = self.worker()
        self.rank(self.LOOP)
        self.assert_step_times(worker, 7)  # 0 to 7: an optimizer's steps are of two batches each
        means = {name: sum(self.values(worker, f"time/{name}").values()) / len(self.values(worker, "time/step"))
                 for name in ("step", "data_wait", "compute", "checkpoint")}
        # Two batches of 20 ms for each step; neither what came before the first one nor the evaluation is in them.
        self.assertGreater(means["data_wait"], 0.015)
        self.assertGreater(means["checkpoint"], 0)
        self.assertLess(means["step"], 0.2, means)

    PHASES = """
from accelerate import Accelerator
from muster.integrations.accelerate import MusterTracker
accelerator = Accelerator(cpu=True, log_with=MusterTracker())
model = torch.nn.Linear(4, 1)
first, second = (torch.optim.SGD(model.parameters(), lr=0.01) for _ in range(2))
for optimizer in [first] * 5 + [second] * 150:
    model(torch.zeros(2, 4)).sum().backward()
    optimizer.step()
"""

    def test_step_times_go_on_with_the_optimizer_of_the_next_phase(self):
        worker = self.worker()
        self.rank(self.PHASES)
        self.assertEqual(max(self.values(worker, "time/step")), 4 + 51)

    def test_a_loop_that_tells_its_steps_is_believed(self):
        worker = self.worker()
        self.rank(self.LOOP, TOLD="1")
        self.assertEqual(max(self.values(worker, "time/step")), 15)


if __name__ == "__main__":
    main()

"""The Hugging Face Trainer under Muster.

from muster.integrations.transformers import MusterCallback, checkpoint_to_resume

trainer = Trainer(..., callbacks=[MusterCallback()])
trainer.train(resume_from_checkpoint=checkpoint_to_resume())
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

import muster
from muster import _process, _step_times
from muster._together import any_rank
from muster.integrations._files import link_tree


def checkpoint_to_resume() -> str | None:
    """For `trainer.train(resume_from_checkpoint=…)`: the checkpoint that this attempt resumes from, or None."""
    found = muster.latest_checkpoint()
    return None if found is None else str(found)


class MusterCallback(TrainerCallback):
    """Sends the Trainer's logs and progress to Muster, hands over each checkpoint that the Trainer saves, and stops
    with a checkpoint when the job is about to be stopped. Outside Muster it does nothing.

    `check_every`: the ranks agree every so many steps on whether to stop, by one all-reduce of a number.
    """

    def __init__(self, check_every: int = 10) -> None:
        self._check_every = max(1, check_every)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Takes over SIGTERM and shows where training begins."""
        muster.should_stop()
        self._restart()
        if state.is_world_process_zero:
            muster.progress(state.global_step, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """The values that the Trainer logs."""
        if state.is_world_process_zero and logs:
            numbers = {name: value for name, value in logs.items() if not isinstance(value, str)}
            muster.log(numbers, step=state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The step's data are here."""
        if (timer := _step_times.timer()) is not None:
            timer.have_data()

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An evaluation is not part of a step."""
        self._restart()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Nor is what happens between two epochs."""
        self._restart()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Step times, progress, and the end of a job that is about to be stopped."""
        if (timer := _step_times.timer()) is not None:
            timer.end(state.global_step)
        if state.is_world_process_zero:
            muster.progress(state.global_step, state.max_steps)
        if state.global_step % self._check_every == 0:
            if muster.should_checkpoint(together=True):
                control.should_save = True
            if muster.should_stop(together=True):
                control.should_save = True
                control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The checkpoint that the Trainer has just written, as hard links where possible."""
        if not _process.is_inside:
            return
        saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        any_rank(False)  # every rank has written its files
        if state.is_world_process_zero and saved.is_dir():
            muster.save_checkpoint(lambda target: link_tree(saved, target), state.global_step)
        elif state.is_world_process_zero:
            _process.warn("elsewhere", f"the Trainer saved, but not to {saved}: Muster has no checkpoint of it")
        any_rank(False)  # the Trainer may now remove it
        self._restart()

    def _restart(self) -> None:
        if (timer := _step_times.timer()) is not None:
            timer.restart()

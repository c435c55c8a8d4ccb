"""Lightning under Muster.

from muster.integrations.lightning import MusterCallback, checkpoint_to_resume

trainer = Trainer(..., callbacks=[MusterCallback(save_every=500)])
trainer.fit(model, data, ckpt_path=checkpoint_to_resume())
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import muster
from muster import _process, _step_times

# Both names of the package exist, and a trainer takes its own callbacks.
if TYPE_CHECKING:
    from lightning.pytorch import Callback
elif "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

FILE = "lightning.ckpt"


def checkpoint_to_resume() -> str | None:
    """For `trainer.fit(ckpt_path=…)`: the checkpoint that this attempt resumes from, or None."""
    found = muster.latest_checkpoint()
    return None if found is None else str(found / FILE)


class MusterCallback(Callback):
    """Sends what the module logs and the progress to Muster, saves a checkpoint every `save_every` steps (0: only at
    the end and when stopped), and stops with a checkpoint when the job is about to be stopped. Outside Muster it does
    nothing.

    `check_every`: the ranks agree every so many steps on whether to stop, by one all-reduce of a number.
    """

    def __init__(self, save_every: int = 0, check_every: int = 10) -> None:
        super().__init__()
        self._save_every = save_every
        self._check_every = max(1, check_every)
        self._seen = -1
        self._sent: dict[str, Any] = {}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Takes over SIGTERM and shows where training begins. Lightning's own handler would end the run before a
        checkpoint, and broadcasts from within the handler."""
        _process.own_sigterm()
        self._seen = trainer.global_step
        self._progress(trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """What happens between two epochs is not part of a step."""
        self._restart()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """The batch is here."""
        if (timer := _step_times.timer()) is not None:
            timer.have_data()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Step times, values, progress, checkpoints, and the end of a job that is about to be stopped."""
        step = trainer.global_step
        timer = _step_times.timer()
        if step == self._seen:  # gradients are being accumulated
            if timer is not None:
                timer.worked()
            return
        self._seen = step
        if timer is not None:
            timer.end(step)
        if step % trainer.log_every_n_steps == 0:
            self._log(trainer)
        self._progress(trainer)
        checks = step % self._check_every == 0
        asked = checks and muster.should_checkpoint(together=True)
        stop = checks and muster.should_stop(together=True)
        if stop or asked or (self._save_every > 0 and step % self._save_every == 0):
            self._save(trainer)
        if stop:
            trainer.should_stop = True
            trainer.fit_loop.epoch_loop.max_steps = step  # now, not after min_epochs

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """The values of a validation, which Lightning does not repeat in training."""
        if not trainer.sanity_checking:
            self._log(trainer)
        self._restart()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """The last values and a last checkpoint."""
        self._log(trainer)
        self._save(trainer)

    def _restart(self) -> None:
        if (timer := _step_times.timer()) is not None:
            timer.restart()

    def _log(self, trainer: Any) -> None:
        if not trainer.is_global_zero:
            return
        # Lightning keeps what a validation or an epoch gave; a value that was measured again is another object.
        fresh = {name: value for name, value in trainer.callback_metrics.items() if self._sent.get(name) is not value}
        self._sent.update(fresh)
        if fresh:
            muster.log(fresh, step=trainer.global_step)

    def _progress(self, trainer: Any) -> None:
        if trainer.is_global_zero:
            total = trainer.estimated_stepping_batches
            muster.progress(trainer.global_step, int(total) if total != float("inf") else 0)

    def _save(self, trainer: Any) -> None:
        """Every rank takes part: a sharded strategy gathers or writes on all."""
        muster.save_checkpoint(
            lambda target: trainer.save_checkpoint(str(target / FILE), weights_only=False),
            trainer.global_step,
            together=True,
        )

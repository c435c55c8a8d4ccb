"""Accelerate under Muster.

from muster.integrations.accelerate import MusterTracker

accelerator = Accelerator(log_with=MusterTracker())  # step times are reported without more
accelerator.init_trackers("any name")
accelerator.log({"loss": loss}, step=step)
muster.save_checkpoint(accelerator.save_state, step, together=True)
if checkpoint_if_asked(accelerator, step):  # after each step, in every process
    break

if (found := muster.latest_checkpoint()) is not None:
    accelerator.load_state(str(found))
"""

from __future__ import annotations

from typing import Any

from accelerate.tracking import GeneralTracker

import muster
from muster import _optimizer_steps


def checkpoint_if_asked(accelerator: Any, step: int) -> bool:
    """Saves the accelerator's state if the job is asked to give its devices to another one, or about to be stopped. A
    collective: every process calls it after the same steps. True: it is about to be stopped, so the loop ends."""
    asked = muster.should_checkpoint(together=True)
    stops = muster.should_stop(together=True)
    if asked or stops:
        muster.save_checkpoint(accelerator.save_state, step, together=True)
    return stops


class MusterTracker(GeneralTracker):
    """Sends what `accelerator.log` gets to Muster, from the main process, and each process's step times: a step ends
    with the optimizer's, and waits for data until the model is called. Gradients that are accumulated make one step,
    of whose data only the first wait is told apart; `muster.steps(loader)` sees each. Outside Muster it does nothing.
    """

    name = "muster"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self) -> None:
        super().__init__()
        _optimizer_steps.watch()

    @property
    def tracker(self) -> Any:
        """The module: `accelerator.get_tracker("muster").tracker` is muster."""
        return muster

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """A job's settings are its command and environment, which Muster has."""

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        """Numbers become metrics; what is text (`accelerator.log` takes that, too) is left out."""
        muster.log({name: value for name, value in values.items() if not isinstance(value, (str, dict))}, step=step)

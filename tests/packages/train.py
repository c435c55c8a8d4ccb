"""A training loop of a newcomer: it needs muster-train alone, and runs with and without Muster.

usage: train.py STEPS [PAUSE_S]
"""
import os
import sys
import time

import muster

steps, pause = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
found = muster.latest_checkpoint("checkpoints")
first = int((found / "state.txt").read_text()) + 1 if found else 1
print(f"rank {os.environ.get('RANK', '-')} pid {os.getpid()} begins with step {first}", flush=True)
for step in range(first, steps + 1):
    time.sleep(pause)
    loss = 1 / step
    muster.log(loss=loss, step=step)
    muster.progress(step, steps)
    print(f"step {step} loss {loss:.4f}", flush=True)
    if step % 10 == 0:
        muster.save_checkpoint(lambda target: (target / "state.txt").write_text(str(step)), step,
                               directory="checkpoints")
print("done", flush=True)

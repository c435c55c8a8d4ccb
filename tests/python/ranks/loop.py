"""A training loop without torch, on the Python package alone; runs with and without Muster.

usage: loop.py STEPS [--pause SECONDS] [--every K] [--checkpoints DIR]
"""
import argparse
import os
import time

import muster

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--every", type=int, default=10)
parser.add_argument("--checkpoints")
options = parser.parse_args()

first = 1
found = muster.latest_checkpoint(options.checkpoints)
if found:
    first = int((found / "state.txt").read_text()) + 1
print(f"rank {os.environ.get('RANK', 'none')} begins with step {first}", flush=True)
for step in range(first, options.steps + 1):
    time.sleep(options.pause)
    muster.log(loss=1 / step, step=step)
    muster.progress(step, options.steps)
    stop = muster.should_stop()
    if stop or step % options.every == 0:
        muster.save_checkpoint(lambda target: (target / "state.txt").write_text(str(step)), step,
                               directory=options.checkpoints)
    if stop:
        print(f"stopped after step {step}", flush=True)
        break
else:
    print("done", flush=True)

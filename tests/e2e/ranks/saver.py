"""A rank that saves when it is told to stop, and not before. usage: saver.py MORE

The first attempt counts steps until SIGTERM; rank 0 then saves the step it is at. One that resumes counts MORE steps and
ends."""
import os
import signal
import sys
import time

rank, source = int(os.environ["RANK"]), os.environ.get("MUSTER_RESUME_FROM")
told = []
signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
step = 0
if source:
    with open(os.path.join(source, "state.txt")) as file:
        step = int(file.read())
print(f"rank {rank} starts from step {step}", flush=True)
last = step + int(sys.argv[1]) if source else 1 << 30
while step < last:
    time.sleep(0.1)
    step += 1
    if not told:
        continue
    if rank == 0:
        place = os.path.join(os.environ["MUSTER_CHECKPOINT_DIR"], f"step-{step}")
        os.makedirs(place + ".tmp")
        with open(os.path.join(place + ".tmp", "state.txt"), "w") as file:
            file.write(str(step))
        os.rename(place + ".tmp", place)
        print(f"saved step {step}", flush=True)
    sys.exit(143)
print(f"rank {rank} is done at step {step}", flush=True)

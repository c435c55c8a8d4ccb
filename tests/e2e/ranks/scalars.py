"""A trainer that only knows TensorBoard: COUNT scalars, flushed; halfway it waits for the file GO."""
import os
import sys
import time

from torch.utils.tensorboard import SummaryWriter

count, go = int(sys.argv[1]), sys.argv[2]
writer = SummaryWriter(flush_secs=1)  # runs/<time>_<host> in the working directory
for step in range(count):
    writer.add_scalar("train/loss", 1.0 / (step + 1), step)
    if step == count // 2:
        writer.flush()
        while not os.path.exists(go):
            time.sleep(0.02)
writer.close()

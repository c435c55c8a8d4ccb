"""The Python side of kinds_test.cc, on Hugging Face Accelerate; kind_ranks.cc is the same program: kind_twin.py OUTPUTS"""
import json
import os
import sys

import numbers_and_streams
import objectives
import sequences
import structures
import torch
from accelerate import Accelerator
from kind import Kind


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    seen = {}
    kinds = numbers_and_streams.KINDS | objectives.KINDS | sequences.KINDS | structures.KINDS
    for name, train in sorted(kinds.items()):
        kind = Kind(accelerator)
        train(kind)
        seen[name] = kind.seen
        accelerator.free_memory()
    with open(f"{sys.argv[1]}/python.{accelerator.process_index}.json", "w") as file:
        json.dump(seen, file)
    accelerator.end_training()
    sys.stdout.flush()
    # Skips interpreter shutdown, where one of Gloo's threads may abort it (pytorch/pytorch#179291).
    os._exit(0)


if __name__ == "__main__":
    main()

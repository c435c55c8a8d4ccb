"""The whole table of combined options, or as much of it as the time allows, in an order that the seed chooses: cells of
combinations_ranks on two ranks, and on four of which two shard a copy; before these, all that Accelerate runs, too, against
Accelerate.

    combinations.py --seconds N [--hostile] [--seed S]
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "e2e"))
from harness import free_port  # noqa: E402

PROGRAM = os.path.join(os.environ.get("MUSTER_BUILD", "build"), "bin", "tests", "trainer_combinations_ranks")
CELLS_AT_ONCE = 40
DEADLINE_S = 600


def run(world, cells, program=(PROGRAM,)):
    """What rank 0 prints."""
    port = free_port()
    ranks = [subprocess.Popen(
        [*program, *cells], stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                 MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))) for rank in range(world)]
    try:
        printed = [rank.communicate(timeout=DEADLINE_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    codes = [rank.returncode for rank in ranks]
    return printed[0] if codes == [0] * world else f"cell of {world} ranks ended with {codes}: {' '.join(cells)}\n{printed[0]}"


def run_against_accelerate():
    """What differs from Accelerate, and a summary."""
    with tempfile.TemporaryDirectory() as directory:
        told = run(2, ["accelerate", directory])
        return told + run(2, [directory], [sys.executable, os.path.join(HERE, "combinations_twin.py")])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--hostile", action="store_true", help="nothing more here")
    args = parser.parse_args()
    cells = subprocess.run([PROGRAM, "list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    random.Random(args.seed).shuffle(cells)
    chunks = [(world, cells[at:at + CELLS_AT_ONCE]) for at in range(0, len(cells), CELLS_AT_ONCE) for world in (2, 4)]
    print(f"seed {args.seed}: {len(cells)} cells on 2 ranks and on 4", flush=True)
    printed = run_against_accelerate()
    print(printed, end="", flush=True)
    until, done, broken = time.monotonic() + args.seconds, 0, "cell " in printed
    for world, some in chunks:
        if time.monotonic() > until:
            break
        printed = run(world, some)
        wrong = [line for line in printed.splitlines() if line.startswith("cell ")]
        print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
        done, broken = done + len(some), broken or bool(wrong)
    print(f"{done} of {2 * len(cells)} cells, {'some of them wrong' if broken else 'all equal to the run without sharding'}")
    sys.exit(broken)


if __name__ == "__main__":
    main()

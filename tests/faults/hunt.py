"""One seed after the other until a promise is broken or the time is over: the main program of a test that `./dev chaos`
runs too.

    TEST.py                                            the tests
    TEST.py --seconds N [--hostile] [--seed FIRST]     seeds
"""
import argparse
import random
import sys
import time
import unittest


def main(run, said=lambda: ""):
    """run(seed, hostile) raises AssertionError if a promise was broken. said(): of all runs, for the last line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    parser.add_argument("--hostile", action="store_true")
    options, rest = parser.parse_known_args()
    if options.seconds is None:
        unittest.main(argv=[sys.argv[0], *rest])
    seed, end, broken = options.seed, time.monotonic() + options.seconds, []
    while time.monotonic() < end:
        print(f"seed {seed}: ", end="", file=sys.stderr, flush=True)
        try:
            run(seed, options.hostile)
        except AssertionError as error:
            print(error, file=sys.stderr, flush=True)
            broken.append(seed)
        seed += 1
    print(f"{seed - options.seed} runs{said()}, broken promises: {', '.join(map(str, broken)) or 'none'}")
    sys.exit(1 if broken else 0)

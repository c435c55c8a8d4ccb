"""Coordinators that replace each other on a real etcd, under clients that ask for anything and faults at random: kills,
pauses, partitions, lost and late requests. What each client was answered is checked afterwards (heads_chaos/).

    heads_chaos_test.py                                                   the tests
    heads_chaos_test.py --runs N [--seed FIRST] [--plant PLANT] [--fault NAME…] [--seconds S] [--objects file|s3]

`./dev chaos --ha N [--seed FIRST]` is the second one.
"""
import argparse
import os
import random
import sys
import unittest

import harness

sys.path.insert(0, os.path.join(harness.HERE, "heads_chaos"))
from run import one_run  # noqa: E402

PLANTS = ("no-term-compare", "no-two-thirds")
TEST_SECONDS = 20 if harness.FULL else 6  # of faults, in a run of the tests
TRIES = 8


class Chaos(unittest.TestCase):
    def check(self, number, objects=None):
        seed = int(os.environ.get("MUSTER_CHAOS_SEED", random.SystemRandom().randrange(1 << 20))) + number
        again = f"./dev chaos --ha 1 --seed {seed}" + (f" --objects {objects}" if objects else "")
        self.assertEqual(one_run(seed, TEST_SECONDS, objects=objects), [], again)

    def test_no_promise_is_broken(self):
        self.check(0)

    def test_no_promise_is_broken_with_another_seed(self):
        self.check(1)

    def test_no_promise_is_broken_with_an_object_store(self):
        self.check(2, "file")


class Planted(unittest.TestCase):
    """The proxy between coordinators and etcd lies, so that they behave as if a rule were missing. It must be found: most
    often at once, where what is late arrives in the moment that it needs."""

    def check(self, plant, fault, words):
        for seed in range(TRIES):
            if any(words in line for line in one_run(seed, TEST_SECONDS, plant, [fault])):
                return
        self.fail(f"{plant} was not found in {TRIES} runs")

    def test_a_leader_that_acts_longer_than_its_lease_is_found(self):
        self.check("no-two-thirds", "cut_quiet_leader", "J1: ")

    def test_a_log_that_does_not_compare_the_leaders_key_is_found(self):
        self.check("no-term-compare", "hold_leader", "J10: ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--plant", choices=PLANTS)
    parser.add_argument("--fault", nargs="*")
    parser.add_argument("--objects", choices=("file", "s3"), help="logs and metrics are in an object store")
    options, _ = parser.parse_known_args()
    if options.runs is None:
        harness.main()
    broken = []
    for seed in range(options.seed, options.seed + options.runs):
        found = one_run(seed, options.seconds, options.plant, options.fault, options.objects)
        print("".join(f"  {line}\n" for line in found[:8]), end="", file=sys.stderr, flush=True)
        if found:
            broken.append(seed)
    print(f"{options.runs} runs, broken promises: {', '.join(map(str, broken)) or 'none'}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

"""The examples under `jobctl run`, as their READMEs say to start them."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from harness import Case, need  # noqa: E402

PORT = os.path.join(harness.BIN, "examples", "port_distributed")


class Port(Case):
    def test_the_five_line_port_trains_on_two_ranks(self):
        need(os.path.exists(PORT), "build/bin/examples/port_distributed is not built")
        muster = self.private()
        muster.jobctl("run", "-n", "2", "-e", "OMP_NUM_THREADS=1", "--", PORT, timeout=120)
        lines = muster.jobctl("logs", "@last").stdout.splitlines()
        last = [line.split("epoch 10", 1)[1] for line in lines if "epoch 10" in line]
        self.assertEqual(len(last), 2, lines)
        self.assertEqual(last[0], last[1], "the ranks hold the same weights")
        self.assertGreater(float(last[0].split()[1]), 95)


if __name__ == "__main__":
    harness.main()

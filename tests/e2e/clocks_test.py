"""Wall clocks an hour apart change nothing: timeouts and leases run on monotonic clocks (F25)."""
import shutil

import harness
from harness import SUCCEEDED, Case, need


class Clocks(Case):
    def setUp(self):
        super().setUp()
        need(shutil.which("faketime"), "needs faketime")

    def test_nodes_an_hour_before_and_behind_work_as_usual(self):
        cluster = harness.Cluster(self).start()
        for name, shift in (("early", "-1h"), ("late", "+1h")):
            cluster.add_worker(name, "cpu:1", prefix=["faketime", "-m", "-f", shift], wait=False)
        cluster.wait_nodes("early", "late")
        job = cluster.submit("-n", "2", "--restarts", "1", "--", "sh", "-c",
                             'echo from $RANK; [ "$MUSTER_ATTEMPT" = 0 ] && [ $RANK = 1 ] && exit 3; sleep 1')
        record = cluster.wait_for(job, SUCCEEDED)
        self.assertEqual(record.next_attempt, 2)
        logs, dropped = cluster.api.logs(job)
        # Rank 0 of the first attempt may have been stopped before it wrote.
        self.assertEqual([logs.get(key) for key in ((0, 1, 1), (1, 0, 1), (1, 1, 1))],
                         [b"from 1\n", b"from 0\n", b"from 1\n"])
        self.assertEqual(sum(dropped.values()), 0)

    def test_a_coordinator_whose_clock_went_back_an_hour_serves_the_old_jobs(self):
        cluster = self.cluster()
        job = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(job, SUCCEEDED)
        cluster.coordinator.kill9()
        cluster.coordinator.prefix = ["faketime", "-m", "-f", "-1h"]
        cluster.restart_coordinator()
        later = cluster.submit("-n", "1", "--", "true")
        cluster.wait_for(later, SUCCEEDED)
        self.assertEqual([item.name for item in cluster.api.list()], [later, job])


if __name__ == "__main__":
    harness.main()

"""What goes wrong in a run. A fault is a generator: what follows its `yield WHO, SECONDS` is done after that long, or
at the end of the run. Meanwhile no other fault concerns WHO."""
import itertools
import os
import random
import signal

import harness
import heads

LEASE_S = heads.LEASE_S


class Faults:
    def __init__(self, cluster, jobs):
        self.cluster, self.jobs = cluster, jobs
        self.choose = None  # the random numbers of the fault that begins
        self.down = set()  # daemons that a fault has stopped or killed, and proxies that do not pass: one fault each
        self.done = []     # (name, what), for the report

    # ---------------------------------------------------------------- whom

    def free_heads(self):
        return [index for index in range(len(self.cluster.heads)) if ("head", index) not in self.down]

    def leader(self):
        index = self.cluster.leader()
        return index if index in self.free_heads() else None

    def standby(self):
        leader = self.cluster.leader()
        others = [index for index in self.free_heads() if index != leader]
        return self.choose.choice(others) if others else None

    def member(self, leads):
        """One of etcd, if all are up: etcd needs two."""
        if any(kind == "member" for kind, _ in self.down):
            return None
        index = self.cluster.etcd.leader()
        if index is None or leads:
            return index
        return self.choose.choice([each for each in range(len(self.cluster.etcd.members)) if each != index])

    def over_lease(self):
        return self.choose.uniform(1.1, 2.0) * LEASE_S

    # ---------------------------------------------------------------- what

    def kill_head(self, index, seconds):
        if index is None:
            return
        self.cluster.heads[index].kill9()
        yield ("head", index), seconds
        self.cluster.start_head(index)

    def kill_leader(self):
        yield from self.kill_head(self.leader(), self.choose.uniform(0, 2))

    def kill_standby(self):
        yield from self.kill_head(self.standby(), self.choose.uniform(0, 2))

    def pause_leader(self):
        index = self.leader()
        if index is None:
            return
        os.kill(self.cluster.heads[index].pid, signal.SIGSTOP)
        yield ("head", index), self.over_lease()
        os.kill(self.cluster.heads[index].pid, signal.SIGCONT)

    def mode(self, index, mode, seconds):
        if index is None:
            return
        self.cluster.proxies[index].set(mode)
        yield ("head", index), seconds
        self.cluster.proxies[index].set("pass")

    def cut_leader(self):
        """From etcd, not from workers and clients."""
        yield from self.mode(self.leader(), self.choose.choice(["cut", "refuse", "deaf"]), self.over_lease())

    def cut_quiet_leader(self):
        """Nothing is under way there that would have to wait for etcd, so nothing keeps it from answering reads."""
        index = self.leader()
        if index is None:
            return
        self.jobs.lull = True
        try:
            harness.wait_until(lambda: not self.jobs.live, "all jobs are over", 4)
        except AssertionError:
            pass
        self.cluster.proxies[index].set("cut")
        self.jobs.lull, self.jobs.avoid = False, index
        yield ("head", index), 2.5 * LEASE_S
        self.jobs.avoid = None
        self.cluster.proxies[index].set("pass")

    def cut_leader_for_a_moment(self):
        yield from self.mode(self.leader(), self.choose.choice(["cut", "deaf"]), self.choose.uniform(0.2, 1.5))

    def cut_standby(self):
        yield from self.mode(self.standby(), "cut", self.over_lease())

    def hold_leader(self):
        """Its requests are done when its term is over."""
        yield from self.mode(self.leader(), "hold", 2 * LEASE_S)

    def slow_leader(self):
        yield from self.mode(self.leader(), f"slow {self.choose.choice([50, 300])}", self.over_lease())

    def kill_member(self, leads):
        index = self.member(leads)
        if index is None:
            return
        self.cluster.etcd.members[index].kill9()
        yield ("member", index), self.choose.uniform(0, 2)
        self.cluster.etcd.members[index].start()

    def kill_etcd_leader(self):
        yield from self.kill_member(True)

    def kill_etcd_follower(self):
        yield from self.kill_member(False)

    def pause_etcd_leader(self):
        index = self.member(True)
        if index is None:
            return
        os.kill(self.cluster.etcd.members[index].pid, signal.SIGSTOP)
        yield ("member", index), self.choose.uniform(0.5, 4)
        os.kill(self.cluster.etcd.members[index].pid, signal.SIGCONT)

    def pause_store(self):
        """Of objects: what is sent there waits."""
        if self.cluster.store is None:
            return
        os.kill(self.cluster.store.pid, signal.SIGSTOP)
        yield ("store", 0), self.choose.uniform(0.5, 6)
        os.kill(self.cluster.store.pid, signal.SIGCONT)

    def kill_worker(self):
        worker = self.cluster.workers[self.choose.choice(sorted(self.cluster.workers))]
        if not worker.alive():
            return
        worker.kill9()
        yield ("worker", worker.pid), self.choose.uniform(0, 1)
        worker.start()


# How often each is drawn.
WEIGHTS = {"kill_leader": 4, "kill_standby": 1, "pause_leader": 3, "cut_leader": 4, "cut_quiet_leader": 2, "cut_leader_for_a_moment": 2,
           "cut_standby": 1, "hold_leader": 3, "slow_leader": 1, "kill_etcd_leader": 2, "kill_etcd_follower": 1,
           "pause_etcd_leader": 1, "kill_worker": 1, "pause_store": 3}


def plan(seed, names):
    """What begins when, whatever the run makes of it: (name, seconds after the one before began or, if it waits for that,
    ended; whether it waits; random numbers of this fault's own), without end."""
    choose = random.Random(f"{seed}-faults")
    for number in itertools.count():
        name = choose.choices(names, [WEIGHTS[each] for each in names])[0]
        yield name, choose.uniform(0.2, 1.5), choose.random() < 0.6, random.Random(f"{seed}-fault-{number}")


class Weather:
    """Begins the faults of a plan until a time, several at once now and then; then undoes them all. One thread."""

    def __init__(self, faults, planned, clock, sleep):
        self.faults, self.planned, self.clock, self.sleep = faults, planned, clock, sleep
        self.pending = []  # (when, generator, who)

    def begin(self, name, choose):
        self.faults.choose = choose
        fault = getattr(self.faults, name)()
        step = next(fault, None)
        if step is None:
            return  # there was none to do it to
        who, seconds = step
        self.faults.down.add(who)
        self.faults.done.append(name)
        self.pending.append((self.clock() + seconds, fault, who))

    def undo(self, all_of_them=False):
        for each in sorted(self.pending, key=lambda entry: entry[0]):
            when, fault, who = each
            if all_of_them or when <= self.clock():
                self.pending.remove(each)
                next(fault, None)
                self.faults.down.discard(who)

    def blow(self, seconds):
        end = self.clock() + seconds
        for name, pause, waits, choose in self.planned:
            due = self.clock() + pause
            while self.clock() < min(due, end) or (waits and self.pending and self.clock() < end):
                self.undo()
                self.sleep(0.05)
            if self.clock() >= end:
                break
            self.begin(name, choose)
        self.undo(all_of_them=True)

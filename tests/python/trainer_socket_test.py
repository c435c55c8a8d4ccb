"""muster.log, progress and should_stop against a worker's side of the trainer socket: real sockets and processes."""
import importlib.util
import os
import signal
import socket
import sys
import time

from support import PACKAGE, Case, FakeWorker, main, need, wait_until

sys.path.insert(0, PACKAGE)

from muster import _process, _training  # noqa: E402
from muster._numbers import metric_name  # noqa: E402
from muster._reporter import QUEUED_POINTS_MAX, Place, Reporter  # noqa: E402


class Metrics(Case):
    def test_a_process_greets_with_its_place_and_token_and_sends_what_was_logged(self):
        worker = self.worker()
        with open(self.path("token"), "w") as file:
            file.write("secret")
        self.run_script("""
            import muster
            for step in range(3):
                muster.log(loss=1.0 / (step + 1), step=step)
            muster.log({"train/lr": 0.5}, step=3, loss=2)
            """, MUSTER_RANK_TOKEN_FILE=self.path("token"))
        hello = worker.lines[0]
        self.assertEqual({name: hello[name] for name in ("type", "version", "job", "attempt", "rank", "token")},
                         {"type": "hello", "version": 1, "job": 42, "attempt": 1, "rank": 3, "token": "secret"})
        self.assertEqual(worker.points, [("loss", 0, 1.0), ("loss", 1, 0.5), ("loss", 2, 1 / 3), ("train/lr", 3, 0.5),
                                         ("loss", 3, 2.0)])
        self.assertEqual([batch["seq"] for batch in worker.of("metrics")], [1])

    def test_steps_tell_what_they_wait_for(self):
        worker = self.worker()
        out, _ = self.run_script("""
            import time, muster
            def loader():
                for i in range(8):
                    time.sleep(0.15)
                    yield i
            class Sized(list):
                drop_last = True
            seen = [batch for batch in muster.steps(loader()) if time.sleep(0.05) is None]
            time.sleep(0.5)                               # an evaluation
            for batch in muster.steps(Sized([1, 2])):
                muster.save_checkpoint(lambda target: time.sleep(0.1) or (target / "x").write_text("x"), batch)
            with muster.step():
                time.sleep(0.02)
            print(seen, len(muster.steps(Sized([1, 2]))), muster.steps(Sized()).drop_last)
            """, MUSTER_CHECKPOINT_DIR=self.path("checkpoints"), RANK=0)
        self.assertEqual(out, "[0, 1, 2, 3, 4, 5, 6, 7] 2 True\n")
        windows, before = {}, -1
        for name, step, value in worker.points:
            windows.setdefault(step, {})[name] = value
        total = {}
        for step, window in sorted(windows.items()):
            self.assertEqual(set(window), {"time/step", "time/data_wait", "time/compute", "time/checkpoint"})
            for name, value in window.items():
                total[name] = total.get(name, 0) + value * (step - before)
            before = step
        self.assertEqual(before, 10)
        self.assertGreaterEqual(total["time/data_wait"], 8 * 0.15)
        self.assertGreaterEqual(total["time/compute"], 8 * 0.05)
        self.assertGreaterEqual(total["time/checkpoint"], 0.2)
        self.assertAlmostEqual(total["time/step"], total["time/data_wait"] + total["time/compute"] + total["time/checkpoint"])

    def test_outside_muster_steps_are_what_was_given(self):
        out, _ = self.run_script("""
            import muster
            given = [1, 2]
            with muster.step():
                print(muster.steps(given) is given)
            """, inside=False)
        self.assertEqual(out, "True\n")

    def test_numbers_that_json_lacks_and_those_of_numpy_and_torch(self):
        worker = self.worker()
        script = "import muster\nfrom math import inf, nan\nmuster.log(a=nan, b=inf, c=-inf, d=True, e=10**400, step=0)\n"
        expected = [("a", 0, "NaN"), ("b", 0, "Infinity"), ("c", 0, "-Infinity"), ("d", 0, 1.0)]
        if importlib.util.find_spec("numpy"):
            script += "import numpy\nmuster.log(f=numpy.float32(0.5), g=numpy.array(2), step=numpy.int64(7))\n"
            expected += [("f", 7, 0.5), ("g", 7, 2.0)]
        if importlib.util.find_spec("torch"):
            script += ("import torch, warnings\nwarnings.simplefilter('error')\n"
                       "muster.log(h=torch.tensor(1.5, requires_grad=True) * 2, i=torch.tensor([4], dtype=torch.bfloat16),"
                       " step=torch.tensor(8))\n")
            expected += [("h", 8, 3.0), ("i", 8, 4.0)]
        _, errors = self.run_script(script)
        self.assertEqual(worker.points, expected)
        said = [line for line in errors.splitlines() if line.startswith("muster")]  # torch warns of a missing numpy
        self.assertEqual(said, ["muster: rank 3: metric e was skipped: it is a int, not one number; pass a float"])

    def test_what_is_not_a_number_is_skipped_and_named_once_and_the_rest_counts(self):
        worker = self.worker()
        _, errors = self.run_script("""
            import muster
            class Hostile:
                def __float__(self): raise SystemError("x")
                def __repr__(self): raise SystemError("y")
            for step in range(3):
                muster.log(name="seven", also=None, hostile=Hostile(), many=[1, 2], loss=1, step=step)
            muster.log(7, step=9)
            muster.log(loss=5, step="ten")
            muster.log(loss=5, step=2**63)
            muster.log(loss=5, step=0.5)
            muster.progress("a", None)
            muster.log(loss=6, step=11.0)
            """)
        self.assertEqual(worker.points, [("loss", step, 1.0) for step in range(3)] + [("loss", 11, 6.0)])
        self.assertEqual(errors.count("metric name was skipped: it is a str"), 1, errors)
        for words in ("metric also", "metric hostile", "metric many", "their step is a str", "metrics were skipped"):
            self.assertIn(words, errors)
        self.assertNotIn("Traceback", errors)

    def test_names_are_made_fit_for_the_worker(self):
        self.assertEqual(metric_name("a\nb\x7f\x85\ud800c"), "a_b___c")
        self.assertEqual(metric_name(""), "_")
        self.assertEqual(metric_name("a" * 300), "a" * 256)
        self.assertEqual(metric_name("é" * 200), "é" * 128)
        self.assertEqual(metric_name("x" + "é" * 200), "x" + "é" * 127)
        self.assertEqual(metric_name(7), "7")
        self.assertEqual(metric_name("Zeit/größe"), "Zeit/größe")

    def test_without_a_step_it_counts_from_the_checkpoint_that_the_attempt_resumes_from(self):
        worker = self.worker()
        script = "import muster\nmuster.log(a=1)\nmuster.log(a=2)\nmuster.log(a=3, step=90)\nmuster.log(a=4)"
        self.run_script(script)
        self.run_script(script, MUSTER_RESUME_FROM="/x/resume/step-40")
        self.assertEqual([step for _, step, _ in worker.points], [0, 1, 90, 91, 41, 42, 90, 91])

    def test_a_second_process_of_the_rank_continues_the_numbers(self):
        worker = self.worker()
        for value in (1, 2):
            self.run_script(f"import muster\nmuster.log(loss={value}, step={value})")
        self.assertEqual([batch["seq"] for batch in worker.of("metrics")], [1, 2])
        self.assertEqual(worker.points, [("loss", 1, 1.0), ("loss", 2, 2.0)])


class TheReporter(Case):
    def reporter(self):
        reporter = Reporter(Place(self.socket, "", 42, 1, 3))
        reporter.start()
        self.addCleanup(reporter.close, 0.1)
        return reporter

    def test_a_worker_that_restarts_gets_each_batch_once(self):
        first = FakeWorker(self.socket, acknowledges=False)
        reporter = self.reporter()
        reporter.add(("loss", 1, 0.5, 0))
        reporter.progress(1, 10)
        wait_until(lambda: first.of("metrics") and first.of("progress"), "the first batch")
        first.close()
        reporter.add(("loss", 2, 0.25, 0))
        second = self.worker()
        wait_until(lambda: len(second.points) == 2 and second.of("progress"), lambda: second.lines)
        self.assertEqual(second.points, [("loss", 1, 0.5), ("loss", 2, 0.25)])
        second.drop_connections()
        reporter.add(("loss", 3, 0.125, 0))
        wait_until(lambda: len(second.points) == 3, lambda: second.lines)
        self.assertEqual(second.seq, len({line["seq"] for line in second.of("metrics")}))
        self.assertEqual(second.refused, [])
        self.assertEqual(second.of("progress")[-1], {"type": "progress", "step": 1, "total": 10})

    def test_what_the_queue_cannot_hold_is_dropped_and_counted(self):
        reporter = self.reporter()
        for step in range(QUEUED_POINTS_MAX + 500):
            reporter.add(("loss", step, 0.0, 0))
        worker = self.worker()
        wait_until(lambda: worker.of("dropped") and len(worker.points) == QUEUED_POINTS_MAX,
                   lambda: (len(worker.points), worker.of("dropped")))
        self.assertEqual(worker.of("dropped")[-1]["metrics"], 500)
        self.assertEqual([step for _, step, _ in worker.points], list(range(QUEUED_POINTS_MAX)))
        self.assertLess(max(len(batch["points"]) for batch in worker.of("metrics")), 1_001)

    def test_many_threads_lose_nothing(self):
        import threading
        worker, reporter = self.worker(), self.reporter()

        def log(thread):
            for step in range(500):
                reporter.add((f"t{thread}", step, 0.0, 0))
        threads = [threading.Thread(target=log, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: len(worker.points) == 4_000, lambda: len(worker.points))
        for number in range(8):
            self.assertEqual([step for name, step, _ in worker.points if name == f"t{number}"], list(range(500)))

    def test_an_idle_reporter_sleeps(self):
        worker, reporter = self.worker(), self.reporter()
        reporter.add(("loss", 1, 0.5, 0))
        wait_until(lambda: worker.points, "the point")
        turns = []
        wait = reporter._wait
        wait_until(lambda: reporter._idle, "it is idle")
        reporter._wait = lambda: (turns.append(1), wait())
        time.sleep(0.5)  # an idle thread makes no turn at all: there is nothing to wait for
        self.assertEqual(turns, [])
        reporter.add(("loss", 2, 0.5, 0))
        wait_until(lambda: len(worker.points) == 2, "it wakes")

    def test_a_worker_without_acknowledgments_is_dialed_again(self):
        import muster._reporter as module
        before, module.SILENCE_S = module.SILENCE_S, 0.2
        self.addCleanup(setattr, module, "SILENCE_S", before)
        worker, reporter = self.worker(acknowledges=False), self.reporter()
        reporter.add(("loss", 1, 0.5, 0))
        wait_until(lambda: len(worker.of("metrics")) >= 2, "the batch is sent again")
        self.assertEqual({batch["seq"] for batch in worker.of("metrics")}, {1})

    def test_garbage_from_the_worker_changes_nothing(self):
        worker, reporter = self.worker(), self.reporter()
        reporter.add(("loss", 1, 0.5, 0))
        wait_until(lambda: worker.points, "the point")
        for line in (b"no json\n", b"[1]\n", b'{"type":"ack","metrics_seq":"x"}\n', b'{"type":"committed"}\n', b"\xff\n",
                     b'{"type":"later","x":1}\n', b"[" * 100_000 + b"\n"):
            worker.connections[-1].sendall(line)
        reporter.add(("loss", 2, 0.5, 0))
        wait_until(lambda: len(worker.points) == 2, "it continues")
        worker.connections[-1].sendall(b"x" * (1 << 20) + b"xx")
        reporter.add(("loss", 3, 0.5, 0))
        wait_until(lambda: len(worker.points) == 3, "it dials again after an endless line")
        self.assertEqual(len(worker.of("hello")), 2)


class NothingBlocks(Case):
    def test_a_worker_that_never_reads_costs_no_time_and_the_end_is_bounded(self):
        self.worker(reads=False)
        begin = time.monotonic()
        out, _ = self.run_script("""
            import muster, time
            worst, begin = 0, time.monotonic()
            for step in range(200_000):
                before = time.monotonic()
                muster.log(loss=0.5, step=step)
                worst = max(worst, time.monotonic() - before)
            print(time.monotonic() - begin, worst)
            """)
        took, worst = map(float, out.split())
        self.assertLess(took, 10)
        self.assertLess(worst, 1)
        self.assertLess(time.monotonic() - begin, took + 10)

    def test_without_a_socket_the_end_takes_two_seconds_at_most(self):
        begin = time.monotonic()
        self.run_script("import muster\nmuster.log(loss=1, step=1)")
        self.assertLess(time.monotonic() - begin, 6)

    def test_an_exception_still_flushes(self):
        worker = self.worker()
        process = self.start("import muster\nmuster.log(loss=1, step=1)\nraise SystemExit(5)")
        self.assertEqual(process.wait(30), 5)
        self.assertEqual(worker.points, [("loss", 1, 1.0)])

    def test_a_worker_that_closes_at_once_is_no_error(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket)
        listener.listen(0)
        self.addCleanup(listener.close)
        process = self.start("""
            import muster, sys
            muster.log(loss=1, step=1)
            sys.stdin.readline()
            for step in range(1000):
                muster.log(loss=1, step=step)
            """)
        for _ in range(5):
            listener.settimeout(10)
            listener.accept()[0].close()
        process.stdin.write("\n")
        process.stdin.flush()
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out, err), (0, "", ""))


class Outside(Case):
    def test_nothing_happens_and_nothing_is_loaded(self):
        out, errors = self.run_script("""
            import sys, threading, signal
            before = set(sys.modules)
            import muster
            muster.log(loss=object(), step="x")
            muster.progress(1, 2)
            assert muster.should_stop() is False and muster.should_stop(together=True) is False
            assert muster.save_checkpoint({"a": 1}, 1) is None and muster.load_checkpoint() is None
            assert muster.latest_checkpoint() is None
            assert threading.active_count() == 1
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
            loaded = set(sys.modules) - before
            assert not loaded & {"torch", "numpy", "grpc", "muster._reporter", "multiprocessing"}, loaded
            print("fine")
            """, inside=False)
        self.assertEqual((out, errors), ("fine\n", ""))

    def test_inside_the_core_imports_no_torch(self):
        self.worker()
        out, _ = self.run_script("import sys, muster\nmuster.log(a=1, step=1)\nmuster.should_stop(together=True)\n"
                                 "print('torch' in sys.modules, 'numpy' in sys.modules)")
        self.assertEqual(out, "False False\n")


class Children(Case):
    SCRIPT = """
        import os, multiprocessing, sys
        import muster

        def child(start):
            for step in range(100, 110):
                muster.log(loss=step, step=step)
            muster.progress(step, 1000)
            assert muster.should_stop() is False

        if __name__ == "__main__":
            if {first}:
                muster.log(loss=0, step=0)
            context = multiprocessing.get_context("{start}")
            process = context.Process(target=child, args=("{start}",), daemon=True)
            process.start()
            process.join()
            assert process.exitcode == 0
            muster.log(loss=1, step=1)
        """

    def children(self, **options):
        worker = self.worker()
        self.run_script(self.SCRIPT.format(**options))
        return worker

    def test_a_forked_child_sends_nothing_and_not_twice(self):
        worker = self.children(start="fork", first=True)
        self.assertEqual(worker.points, [("loss", 0, 0.0), ("loss", 1, 1.0)])
        self.assertEqual(len(worker.of("hello")), 1)

    def test_a_spawned_child_sends_nothing(self):
        worker = self.children(start="spawn", first=True)
        self.assertEqual(worker.points, [("loss", 0, 0.0), ("loss", 1, 1.0)])

    def test_a_childs_call_before_the_parents_does_not_take_its_place(self):
        for start in ("fork", "spawn", "forkserver"):
            worker = self.children(start=start, first=False)
            self.assertEqual(worker.points, [("loss", 1, 1.0)], start)
            worker.close()

    def test_a_plain_fork_keeps_the_parents_connection(self):
        worker = self.worker()
        self.run_script("""
            import os, sys, muster
            muster.log(loss=0, step=0)
            if os.fork() == 0:
                muster.log(loss=7, step=7)
                sys.exit(0)   # with the interpreter's end, which closes the parent's reporter nowhere
            os.wait()
            muster.log(loss=1, step=1)
            """)
        self.assertEqual(worker.points, [("loss", 0, 0.0), ("loss", 1, 1.0)])
        self.assertEqual(len(worker.of("hello")), 1)

    def test_a_data_loaders_workers_send_nothing(self):
        need(importlib.util.find_spec("torch"), "needs the Python package torch")
        worker = self.worker()
        self.run_script("""
            import torch, muster
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 8
                def __getitem__(self, index):
                    muster.log(item=index, step=index)
                    return index
            muster.log(loss=0, step=0)
            for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2):
                muster.log(loss=1, step=1)
            """)
        self.assertEqual({name for name, *_ in worker.points}, {"loss"})
        self.assertEqual(len(worker.points), 5)


class Stops(Case):
    LOOP = """
        import muster, sys, time
        muster.should_stop()
        print("ready", flush=True)
        for step in range(2000):
            time.sleep(0.01)
            if muster.should_stop():
                muster.log(saved=step, step=step)
                print("stopped", flush=True)
                sys.exit(7)
        """

    def ready(self, script=LOOP, **env):
        process = self.start(script, **env)
        self.assertEqual(process.stdout.readline(), "ready\n", process.poll())
        return process

    def test_the_workers_request(self):
        worker, process = self.worker(), self.ready()
        wait_until(lambda: worker.of("hello"), "it is there")
        worker.tell(type="stop", reason="cancelled", grace_ms=30_000)
        self.assertEqual(process.wait(30), 7)
        self.assertEqual(worker.points[0][0], "saved")

    def test_sigterm_is_a_request_and_interrupts_no_training(self):
        worker, process = self.worker(), self.ready()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 7)
        self.assertEqual(worker.points[0][0], "saved")

    def test_a_second_sigterm_ends_the_process(self):
        self.worker()
        process = self.ready("""
            import muster, time
            muster.should_stop()
            print("ready", flush=True)
            while True:
                time.sleep(0.01)
                if muster.should_stop():
                    print("asked", flush=True)
            """)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "asked\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), -signal.SIGTERM)

    def test_a_handler_that_was_there_is_called_too(self):
        self.worker()
        process = self.ready("""
            import muster, os, signal, sys, time
            signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"mine\\n"))  # print may be under way
            muster.should_stop()
            print("ready", flush=True)
            while not muster.should_stop():
                time.sleep(0.01)
            sys.exit(7)
            """)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "mine\n")
        self.assertEqual(process.wait(30), 7)

    def test_without_a_call_sigterm_ends_the_process_as_ever(self):
        self.worker()
        process = self.ready("import muster, time\nmuster.log(a=1, step=1)\nprint('ready', flush=True)\ntime.sleep(60)")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), -signal.SIGTERM)

    def test_a_child_that_its_parent_terminates_dies(self):
        self.worker()
        process = self.ready("""
            import multiprocessing, time, muster
            muster.should_stop()
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
            child.start()
            child.terminate()
            child.join(20)
            assert child.exitcode == -15, child.exitcode
            print("ready", flush=True)
            """)
        self.assertEqual(process.wait(30), 0)

    LOADER = """
        import sys, time, torch, muster
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 100_000
            def __getitem__(self, index):
                time.sleep(0.002)
                return index
        if __name__ == "__main__":
            muster.load_checkpoint()
            more = 0
            loader = torch.utils.data.DataLoader(Data(), num_workers=2, prefetch_factor=2, multiprocessing_context="START")
            for step, batch in enumerate(loader):
                more += muster.should_stop()  # the first call comes after the workers were started
                if step == 1:
                    print("ready", flush=True)
                if more == 50:  # the workers still deliver
                    sys.exit(7)
        """

    def test_a_stop_of_the_whole_group_spares_the_loaders_workers_until_the_checkpoint(self):
        need(importlib.util.find_spec("torch"), "needs the Python package torch")
        self.worker()
        for start in ("fork", "spawn", "forkserver"):
            process = self.ready(self.LOADER.replace("START", start))
            os.killpg(process.pid, signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 7, f"{start}: {err}")


class Defaults(Case):
    def test_a_broken_place_breaks_no_training(self):
        self.run_script("import muster\nmuster.log(a=1, step=1)\nmuster.should_stop()",
                        MUSTER_SOCKET="/" + "x" * 200, MUSTER_JOB_ID="none", RANK="x")

    def test_the_tests_process_itself_is_outside(self):
        _process.reset()
        self.assertIsNone(_process.decide())
        _training.log(loss=1, step=1)


if __name__ == "__main__":
    main()

"""The machine on which the page about several coordinators is typed: a cluster of one, which moves into an etcd and back."""
import os
import re

import harness


class Several:
    def __init__(self, page, etcd):
        self.page, self.root, self.coordinator = page, page.place + "/several", None
        os.mkdir(self.root)
        ports = harness.free_port(), harness.free_port()
        self.theirs = [("e1:2379,e2:2379,e3:2379", ",".join(etcd.endpoints)), ("h1:", "localhost:"), ("0.0.0.0", "127.0.0.1"),
                       (":7700", f":{ports[0]}"), (":7701", f":{ports[1]}"), ("/var/lib/muster", self.root)]
        self.shell = page.open_shell(page.work)

    def here(self, text):
        for theirs, ours in self.theirs:
            text = text.replace(theirs, ours)
        return text

    def type(self, command):
        code, output, seconds = self.shell.run(self.here(command))
        print(f"{seconds:7.2f} s  {command.splitlines()[0][:100]}", flush=True)
        self.page.assertEqual(code, 0, f"{command}\n{output}")
        return output

    def type_block(self, commands):
        for command in commands:
            if command.startswith("muster-coordinator --state"):
                self.serve(command)
            else:
                self.stop()  # "stop all of them", and before the first one none runs
                self.page.assertIn("moved to", self.type(command))

    def serve(self, command):
        log = self.root + "/coordinator.log"
        self.coordinator = harness.Daemon(["bash", "-c", "exec " + self.here(command)], self.page.env, log)
        self.page.daemons.append(self.coordinator.start())
        harness.wait_until(lambda: re.search(r"\bserving endpoint", self.coordinator.output()), self.coordinator.output)
        self.type("jobctl --server unix:/var/lib/muster/coordinator/coordinator.sock ls")  # "as root … needs no token"

    def stop(self):
        if self.coordinator:
            self.coordinator.stop()

"""The pages of docs/ that tell a newcomer what to type, and README: each code block is typed here, from the top of its page
to the bottom, or stands in NOT_TYPED with the reason. A new block that is not there is typed, and fails if it cannot run.

The newcomer's machine is a tree that has what `./dev build` installs, and a network of one node: names, addresses and
directories of a page are replaced by some of this machine."""
import functools
import os
import re
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
import heads  # noqa: E402
import newcomer  # noqa: E402
from several import Several  # noqa: E402
import typed  # noqa: E402

# By page, then by how the block's first line begins. docs/tour.md is typed by tour_test.py.
NOT_TYPED = {
    "examples/exported/README.md": {},
    "README.md": {
        "./dev demo": "builds everything and runs all tests; `./dev check-bare` types it",
        "digits-1  2 ranks": "what `./dev demo` prints",
        "[node1:0] epoch 10/12": "what happened when a rank died; tour_test.py types such a run",
        "root, resume =": "a fragment; tests/e2e/ranks/counter.py saves and resumes this way",
    },
    "docs/install.md": {
        "pip install muster_train-VERSION": "needs the wheel: tests/packages/wheel_test.py types it",
        "apt install ./muster-jobctl": "needs root and a Debian to install on: tests/packages/life_test.py does it in a chroot",
        "jobctl version --verify": "needs an installed package: tests/packages/deb_test.py has one",
        "cd /     # of the wheel": "needs an installed package: tests/packages/deb_test.py has one",
    },
    "docs/python.md": {
        "import muster": "a fragment of examples/python/train.py, which tests/python/jobs_test.py runs",
    },
    "docs/operating.md": {
        "muster-coordinator … --http": "needs an identity provider: tests/e2e/oidc_test.py has one",
        "jobctl login head.example.org:7701 --oidc": "needs an identity provider: tests/e2e/oidc_test.py has one",
        "runuser -u muster": "needs root and systemd: tests/packages/life_test.py installs the units in a chroot",
        "muster-worker join head.example.org:7701 --state-dir /var/lib/muster/worker --name": "needs root and systemd",
        "useradd --system": "needs root: it adds an account and directories of the system",
        "muster-coordinator init --join": "needs another machine: tests/e2e/heads_join_test.py begins one this way",
        "jobctl token create coordinator": "is for another machine: tests/e2e/heads_join_test.py",
    },
    "docs/containers.md": {
        "docker compose -f deploy/containers/compose": "needs docker: tests/e2e/containers_test.py starts the images under podman",
        "docker compose -f deploy/containers/heads": "needs docker: tests/e2e/heads_deploy_test.py starts all of it without",
        "muster-worker init": "the form of a command, not one: tests/e2e/init_test.py",
        "docker compose exec": "needs docker",
        "kubectl apply -k deploy/kubernetes/base": "needs Kubernetes: tests/e2e/manifests_test.py checks the manifests",
        "kubectl apply -k deploy/kubernetes/heads": "needs Kubernetes: tests/e2e/manifests_test.py checks the manifests",
    },
    "docs/clusters.md": {
        "$ jobctl cluster up lab --on ssh": "needs ssh to other machines: tests/e2e/cluster_ssh_test.py has servers here",
        "$ jobctl cluster up lab --on slurm": "needs Slurm: tests/e2e/cluster_slurm_test.py",
    },
}
TYPED = {"docs/python.md", "docs/operating.md", "examples/exported/README.md"}
TRAIN = """import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
"""
ACCOUNT = "nobody"  # on every Debian, and not a service's
# Commands that stay until they are stopped.
SERVES = re.compile(r"muster-coordinator --(data-dir|state)")
# Of several coordinators: a cluster beside the one that the rest of the page is about.
OF_SEVERAL = re.compile(r"muster-coordinator (migrate|--state)")
WORKS = re.compile(r"muster-worker --")


def page_text(page):
    with open(os.path.join(harness.ROOT, page)) as file:
        return file.read()


def names_of(page, block):
    """The entries of NOT_TYPED that it is."""
    return [start for start in NOT_TYPED[page] if block.startswith(start)]


class EveryBlock(unittest.TestCase):
    def test_the_table_names_blocks_that_are_there(self):
        for page, names in NOT_TYPED.items():
            named = [name for _, block in typed.blocks(page_text(page)) for name in names_of(page, block)]
            self.assertEqual(sorted(named), sorted(names), page)

    def test_pages_that_are_not_typed_here_have_no_block_without_a_reason(self):
        for page in NOT_TYPED.keys() - TYPED:
            for _, block in typed.blocks(page_text(page)):
                self.assertTrue(names_of(page, block), f"{page}: type this block, or tell in NOT_TYPED why not:\n{block}")

    def test_the_tour_is_typed_by_tour_test(self):
        self.assertEqual({language for language, _ in typed.blocks(page_text("docs/tour.md"))}, {""})


class Page(harness.Case):
    """One page, typed from its top in a directory with a train.py."""

    def setUp(self):
        harness.need_scripts_outside_tmp()
        super().setUp()
        # Not in /tmp: ranks of another account have their own.
        self.place = tempfile.mkdtemp(prefix="typed-", dir=harness.BUILD)
        os.chmod(self.place, 0o755)
        self.tree = newcomer.tree(self.place + "/tree")
        self.env["PATH"] = f"{self.tree}/build/bin:{self.tree}/.venv/bin:{self.env['PATH']}"
        self.work = self.place + "/work"
        os.mkdir(self.work)
        with open(self.work + "/train.py", "w") as file:
            file.write(TRAIN)

    def _tear_down(self):
        super()._tear_down()  # first what runs there
        shutil.rmtree(self.place, ignore_errors=True)

    def open_shell(self, directory, **env):
        shell = typed.Shell({**self.env, "TERM": "xterm", "PS1": "", **env}, directory)
        self.addCleanup(shell.close)
        return shell

    def type_page(self, page):
        for language, block in typed.blocks(page_text(page)):
            if not names_of(page, block):
                self.type_block(language, block)

    def type(self, command):
        code, output, seconds = self.shell.run(command)
        print(f"{seconds:7.2f} s  {command.splitlines()[0][:100]}", flush=True)
        self.assertEqual(code, 0, f"{command}\n{output}")
        return output


class Python(Page):
    def test_python_md(self):
        newcomer.add_pip(self.tree)
        # A build writes into its sources. What `./dev build` and pip would bring from the index is there already.
        os.unlink(self.tree + "/python")
        shutil.copytree(os.path.join(harness.ROOT, "python"), self.tree + "/python")
        self.shell = self.open_shell(self.tree, PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0", PYTHONDONTWRITEBYTECODE="1")
        self.private()
        self.type_page("docs/python.md")

    def type_block(self, language, block):
        if language == "sh":
            for command, _ in typed.commands(block):
                self.type(command)
            return
        with open(self.work + "/program.py", "w") as file:
            file.write(block)
        output = self.type(f"jobctl up && cd {self.work} && python program.py")
        self.assertIn("2 rank 1 of 2", re.sub(r"(?m)^1 rank", "2 rank", output))


class Exported(Page):
    def test_examples_exported(self):
        self.shell = self.open_shell(self.tree)
        self.private()
        self.type_page("examples/exported/README.md")
        self.assertIn("resumed from step", self.output)
        loss = re.search(r"loss (\S+) in C\+\+", self.output).group(1)
        self.assertIn(f"loss {loss} in Python", self.output)

    def type_block(self, language, block):
        if language != "sh":
            return  # what it printed once
        for command, _ in typed.commands(block):
            if command != "./dev build tour":
                self.output = getattr(self, "output", "") + self.type(command.replace("/tmp/llama", self.work))


class Operating(Page):
    def setUp(self):
        super().setUp()
        self.machines, self.daemons_of_page = 0, []
        if os.geteuid() == 0:
            self.env["SUDO_USER"] = ACCOUNT  # the first administrator is who typed sudo, and has an account here
            # An interpreter in root's home would be closed to it.
            os.mkdir(self.place + "/bin")
            os.symlink("/usr/bin/python3", self.place + "/bin/python")
            self.env["PATH"] = f"{self.place}/bin:{self.env['PATH']}"

    def test_operating_md(self):
        self.new_machine()
        self.type_page("docs/operating.md")
        self.stop_daemons()

    @functools.cached_property
    def several(self):
        """A machine with a cluster that has done nothing yet, and an etcd; None: there is no etcd here."""
        if not heads.binary("etcd"):
            print("SKIPPED: the blocks of several coordinators, as there is no etcd here", flush=True)
            return None
        machine = Several(self, heads.Etcd(self))
        machine.type("muster-coordinator init --data-dir /var/lib/muster/coordinator --name lab --host localhost")
        return machine

    def new_machine(self):
        """Nothing runs, nothing is stored, no one has signed in."""
        self.stop_daemons()
        self.machines += 1
        self.root = f"{self.place}/{self.machines}"
        os.mkdir(self.root)
        self.ports, self.tokens, self.node = (harness.free_port(), harness.free_port()), {}, os.uname().nodename
        self.config = self.root + "/config.yaml"
        self.shell = self.open_shell(self.work, JOBCTL_CONFIG=self.config)

    def here(self, text):
        """With names, addresses and directories of this machine."""
        for theirs, ours in (("head.example.org", "localhost"), ("0.0.0.0", "127.0.0.1"), ("10.0.0.11", "127.0.0.1"),
                             ("10.0.0.1", "127.0.0.1"), (":7700", f":{self.ports[0]}"), (":7701", f":{self.ports[1]}"),
                             ("/var/lib/muster/coordinator", self.root + "/head/coordinator"),
                             ("/var/lib/muster/worker", self.root + "/node/worker"),
                             ("/run/muster", self.root + "/run"), ("/backup", self.root + "/backup"), ("node3", self.node)):
            text = text.replace(theirs, ours)
        return text

    def type_block(self, language, block):
        if language == "yaml":
            with open(self.config, "w") as file:
                file.write(block)
            self.assertIn("head:7700", self.type("jobctl config view"))
            return
        commands = [command for command, _ in typed.commands(block)]
        if OF_SEVERAL.match(commands[0]):
            return self.several and self.several.type_block(commands)
        if any(SERVES.match(command) for command in commands):
            self.new_machine()
        for command in commands:
            self.meanwhile(command)
            command = self.here(command)
            if served := SERVES.match(command) or WORKS.match(command):
                self.start(command, served.re is SERVES)
            elif command.startswith("muster-worker join"):
                self.type(f"{command} <<<{self.tokens['worker']}")  # "it asks for the worker's token"
            elif command.startswith("jobctl login"):
                self.type(f"{command} <<<{self.tokens['person']}")  # "it asks for your token"
            else:
                self.after(command, self.type(command))

    def meanwhile(self, command):
        """What happens to the machine before the reader types this."""
        if command.startswith(("muster-coordinator restore", "muster-coordinator check")):
            self.stop_daemons()
        if command.startswith("jobctl nodes rm"):
            self.stop_daemon(self.daemons_of_page.pop())  # the worker
            harness.wait_until(lambda: not re.search(r"\bnow\b", self.shell.run("jobctl nodes ls")[1]), "it is disconnected")
        if command.startswith("muster-coordinator restore"):
            shutil.rmtree(self.root + "/head/coordinator")

    def after(self, command, output):
        """What must have come of it."""
        if command.startswith("muster-coordinator init"):
            self.tokens = dict(zip(("worker", "person"), re.findall(r"\bmuster1\.\S+", output)))
        if command.startswith("jobctl submit"):
            self.type("jobctl wait @last")
            self.assertIn("rank 1 of 2", self.type("jobctl logs @last"))
        if command.startswith("jobctl nodes ls"):
            self.assertRegex(output, r"(?m)^(node1|%s) +ALIVE" % re.escape(self.node))

    def start(self, command, is_coordinator):
        log = f"{self.root}/daemon-{len(self.daemons_of_page)}.log"
        open(log, "w").close()
        output = self.type(f"{command} >>{log} 2>&1 & echo started $!")
        self.daemons_of_page.append(int(re.search(r"started (\d+)", output).group(1)))
        if found := re.search(r"--name (\S+)", command):
            self.node = found.group(1)

        def serves():
            with open(log) as file:
                return re.search(r"\bserving endpoint" if is_coordinator else r"\bregistered coordinator", file.read())

        def said():
            with open(log) as file:
                return f"{command} serves:\n{file.read()}"
        harness.wait_until(serves, said)

    def stop_daemons(self):
        while self.daemons_of_page:
            self.stop_daemon(self.daemons_of_page.pop())

    def stop_daemon(self, pid):
        os.kill(pid, signal.SIGTERM)
        self.shell.run(f"wait {pid}")


if __name__ == "__main__":
    harness.main()

"""docs/tour.md: every line is run as a reader would, in a shell on a terminal, in a tree whose Python has only what
`./dev build` installs, and prints what the tour says, but for numbers; its page shows what the tour says of it. Prints how
long each line took."""
import os
import re

import browser
import harness
import newcomer
import typed

TOUR = os.path.join(harness.ROOT, "docs", "tour.md")


def shape(text):
    """The text without what differs from run to run: numbers with their units, names that were picked, curves."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = re.sub(r"\b[a-z]+-[a-z]+-\d+\b", "NAME", text)
    text = re.sub(r"unix:\S+", "SOCKET", text)
    text = re.sub(r"[▁▂▃▄▅▆▇█]+", "CURVE", text)
    text = re.sub(r"(?<![A-Za-z-])[-+]?\d[\d.,:]*(e[-+]?\d+)?( ?(ms|s|m|h|KB|MB|%)\b)?%?", "#", text)
    return re.sub(r"(# )+#", "#", re.sub(r"\s+", " ", text)).strip()


class Tour(browser.PageCase):
    def test_every_line_does_what_it_says(self):
        with open(TOUR) as file:
            tour = file.read().replace("/tmp/tour", self.path("tour"))
        tree = newcomer.tree(self.path("tree"))
        shell = typed.Shell(dict(self.env, TERM="xterm", PS1=""), tree)
        self.addCleanup(shell.close)
        host, total = os.uname().nodename, 0
        for command, printed in typed.steps(tour):
            if command == "./dev build tour":
                continue
            code, output, seconds = shell.run(command)
            total += seconds
            print(f"{seconds:7.2f} s  {command.splitlines()[0]}")
            self.assertEqual(code, 0, f"{command}\n{output}")
            actual = shape(output)
            # A wrapped line is whole again; what "…" stands for may be anything.
            expected = [each for each in re.split(r"…|\n(?! )", printed.replace("vm", host)) if each.strip()]
            for each in expected:
                self.assertIn(shape(each), actual, f"{command} printed\n{output}")
            if command == "jobctl up":
                self.wait_until_its_node_is_free()
            if command.startswith("jobctl ui"):
                self.look_at_the_page(output.splitlines()[0], host)
        print(f"{total:7.2f} s  in all")

    def wait_until_its_node_is_free(self):
        """A reader types slower than the worker needs to see that nothing older runs here."""
        api = self.private().api
        service = api.service
        harness.wait_until(
            lambda: all(not node.clearing for node in
                        api.unary("ListNodes", service.ListNodesRequest(), service.ListNodesResponse).nodes),
            "a node that is free")

    def look_at_the_page(self, link, host):
        self.address = link.split("/sign-in")[0]
        context = self.open_context()
        page = context.new_page()
        page.goto(link)
        browser.expect(page.locator("main")).to_contain_text(re.compile(rf"rank [01] on {host} was killed by signal 9"))
        for tab in ("Logs", "Ranks", "Checkpoints", "Events", "Config", "Environment", "Ledger"):
            browser.expect(page.get_by_role("tab", name=tab)).to_be_visible()
        page.get_by_role("link", name="Jobs", exact=True).click()
        browser.expect(page.get_by_role("link", name="digits-4")).to_be_visible()
        page.goto(self.address + "/compare?jobs=alone-5,pair-6")
        browser.expect(page.locator("main")).to_contain_text("world size")
        browser.expect(page.locator("main")).to_contain_text("4.01088")
        page.close()


TRAIN = """import os
import torch.distributed as dist
dist.init_process_group("gloo")
print("rank", dist.get_rank(), "of", dist.get_world_size(), flush=True)
dist.barrier()  # a rank that ends while another still connects to it ends that one too
dist.destroy_process_group()
os._exit(0)  # as in tests/e2e/ranks/allreduce.py
"""
# Of README's table, what needs other machines, a registry, Slurm or what other tests have: e2e_containers, e2e_enroll,
# e2e_cluster_ssh, e2e_cluster_slurm, e2e_images.
NOT_HERE = ("jobctl run --image", "jobctl cluster", "jobctl submit job.sbatch", "muster-coordinator", "muster-worker", "jobctl login",
            "jobctl run --accelerate-config", "./dev")


class Readme(harness.Case):
    """The commands of README's table "What you run", with a script in place of the reader's, up to two ranks."""

    def test_the_table_of_what_you_run(self):
        with open(os.path.join(harness.ROOT, "README.md")) as file:
            table = file.read().split("## What you run\n")[1].split("\n\n**")[0]
        commands = [each for each in re.findall(r"`((?:jobctl|muster)[^`]*)`", table) if not each.startswith(NOT_HERE)]
        self.assertGreaterEqual(len(commands), 6, commands)
        tree, work = newcomer.tree(self.path("tree")), self.path("work")
        os.mkdir(work)
        for name, text in (("train.py", TRAIN), ("train.yaml", "command: [python, train.py]\nresources:\n  processes: 2\n"),
                           ("trainer", "#!/bin/sh\necho rank $RANK of $WORLD_SIZE\n")):
            with open(os.path.join(work, name), "w") as file:
                file.write(text)
        os.chmod(os.path.join(work, "trainer"), 0o755)
        self.private()  # is stopped at the end
        shell = typed.Shell(dict(self.env, TERM="xterm", PS1=""), work)
        self.addCleanup(shell.close)
        shell.run(f"export PATH={tree}/build/bin:{tree}/.venv/bin:$PATH")
        for command in commands:
            code, output, seconds = shell.run(command.replace("-n 8", "-n 2"))
            print(f"{seconds:7.2f} s  {command}")
            self.assertEqual(code, 0, f"{command}\n{output}")
            if "submit" not in command:
                self.assertIn("rank 1 of 2", output, command)


if __name__ == "__main__":
    harness.main()

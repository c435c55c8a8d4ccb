"""What ./dev does before it builds: which packages it takes, whom it waits for, what it tries again. Real apt with an
archive and a state of the test's own, real pip with an index on loopback; nothing is installed."""
import fcntl
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PARTS = "set -euo pipefail; dev_command='./dev demo'; build_dir=build; for part in messages apt python; do . dev-lib/$part.sh; done; "
# Releases as apt's index shows them, with what matters here.
DEBIAN_12 = {"g++": "4:12.2.0-3", "cmake": "3.25.1-1", "libboost1.81-dev": "1.81.0-5", "libboost-dev": "1.74.0.3",
             "libgrpc++-dev": "1.51.1-3", "libclang-rt-14-dev": "1:14.0.6-12"}
DEBIAN_13 = {"g++": "4:14.2.0-1", "cmake": "3.31.6-2", "libboost1.83-dev": "1.83.0-4.2", "libboost-dev": "1.83.0.2",
             "libgrpc++-dev": "1.51.1-6", "libclang-rt-19-dev": "1:19.1.7-3"}
UBUNTU_22 = {"g++": "4:11.2.0-1ubuntu1", "cmake": "3.22.1-1ubuntu1", "libboost-dev": "1.74.0.3ubuntu7",
             "libgrpc++-dev": "1.30.2-3build6", "libclang-rt-14-dev": "1:14.0.0"}
ROWS = ["g++ (>= 4:12)", "cmake (>= 3.25)", "libboost1.81-dev | libboost1.83-dev | libboost-dev (>= 1.81)",
        "libgrpc++-dev (>= 1.51)", "libclang-rt-14-dev | libclang-rt-19-dev | libclang-rt-18-dev"]


class Dev(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mt-dev-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.env = {**os.environ, "MUSTER_RETRY_PAUSE": "0", "APT_CONFIG": self.path("apt.conf")}

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def shell(self, script):
        return subprocess.run(["bash", "-c", PARTS + script], cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)

    def archive(self, packages):
        """apt knows these packages and no others, and none is installed."""
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            self.skipTest("needs apt")
        for name in ("archive", "etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
            os.makedirs(self.path(name), exist_ok=True)
        open(self.path("state/status"), "w").close()
        with open(self.path("archive/Packages"), "w") as file:
            for name, version in packages.items():
                file.write(f"Package: {name}\nVersion: {version}\nArchitecture: all\nFilename: x.deb\nSize: 1\n\n")
        with open(self.path("etc/sources.list"), "w") as file:
            file.write(f"deb [trusted=yes] file:{self.path('archive')} ./\n")
        with open(self.path("apt.conf"), "w") as file:
            file.write(f'Dir::Etc "{self.path("etc")}"; Dir::State "{self.path("state")}"; Dir::Cache "{self.path("cache")}";\n'
                       f'Dir::State::status "{self.path("state/status")}"; APT::Sandbox::User "root";\n')
        done = self.shell("apt-get update -q")
        self.assertEqual(done.returncode, 0, done.stderr)

    def chosen(self, packages):
        self.archive(packages)
        rows = "\n".join(ROWS)
        return self.shell(f"choose_names '{rows}'; echo \"${{chosen[@]}}\"; [ ${{#unmet[@]}} -eq 0 ] || refuse_unmet")

    def test_debian_12_and_13_have_the_packages_under_names_of_their_own(self):
        for packages in (DEBIAN_12, DEBIAN_13):
            done = self.chosen(packages)
            self.assertEqual(done.returncode, 0, done.stderr)
            boost = "libboost1.81-dev" if packages is DEBIAN_12 else "libboost1.83-dev"
            clang = "libclang-rt-14-dev" if packages is DEBIAN_12 else "libclang-rt-19-dev"
            self.assertEqual(done.stdout.split(), ["g++", "cmake", boost, "libgrpc++-dev", clang])

    def test_a_system_that_is_too_old_is_told_what_it_has_and_what_runs_there(self):
        done = self.chosen(UBUNTU_22)
        self.assertEqual(done.returncode, 1)
        for line in ("needed: g++ (>= 4:12): this system has g++ 4:11.2.0-1ubuntu1",
                     "needed: libboost1.81-dev | libboost1.83-dev | libboost-dev (>= 1.81): this system has libboost-dev 1.74.0.3ubuntu7",
                     "needed: libgrpc++-dev (>= 1.51): this system has libgrpc++-dev 1.30.2-3build6",
                     "fix: build on Debian 12 or 13", "./dev package"):
            self.assertIn(line, done.stderr)

    def test_every_row_of_the_table_is_understood(self):
        with open(os.path.join(ROOT, "dev-lib", "packages")) as file:
            rows = [line.split(None, 1) for line in file if not line.startswith("#")]
        self.assertGreater(len(rows), 40)
        groups = " ".join(sorted({group for group, _ in rows}))
        done = self.shell(f"package_rows {groups} | names_in")
        for line in done.stdout.splitlines():
            self.assertRegex(line, r"^[a-z][a-z0-9+.-]+( (\d:)?\d[\d.]*)?$")
        self.assertEqual(self.shell("package_rows build | rows_not_installed").returncode, 0)

    def test_apts_lock_is_waited_for_with_a_word_about_its_holder(self):
        self.archive(DEBIAN_12)
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys; file = open(sys.argv[1], 'w'); "
                                   "fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()",
                                   self.path("state/lists/lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (holder.kill(), holder.wait(), holder.stdout.close()))
        self.assertEqual(holder.stdout.readline(), "held\n")
        waiting = subprocess.Popen(["bash", "-c", PARTS + "wait_for_apt; echo free"], cwd=ROOT, env=self.env,
                                   stdout=subprocess.PIPE, text=True)
        said = waiting.stdout.readline()
        self.assertIn(f"(pid {holder.pid}), which holds apt's lock", said)
        self.assertIsNone(waiting.poll())
        holder.stdin.close()
        self.assertEqual(waiting.communicate(timeout=60)[0], "free\n")

    def test_a_second_dev_in_one_tree_waits_and_tells_for_whom(self):
        with open(self.path("lock"), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write("pid 4711, ./dev test, since 10:00:00\n")
            file.flush()
            waiting = subprocess.Popen(["bash", "-c", PARTS + f"lock {self.path('lock')} builds; echo mine"], cwd=ROOT,
                                       env=self.env, stdout=subprocess.PIPE, text=True)
            self.assertIn("another ./dev builds in this tree (pid 4711, ./dev test, since 10:00:00)",
                          waiting.stdout.readline())
        self.assertEqual(waiting.communicate(timeout=60)[0], "mine\n")
        with open(self.path("lock")) as file:
            self.assertIn(f"pid {waiting.pid}, ./dev demo", file.read())

    def test_a_download_that_breaks_in_the_middle_is_tried_again(self):
        wheel = "muster_test_download-1.0-py3-none-any.whl"
        with zipfile.ZipFile(self.path(wheel), "w") as archive:
            archive.writestr("muster_test_download.txt", os.urandom(300_000))
            archive.writestr("muster_test_download-1.0.dist-info/METADATA",
                             "Metadata-Version: 2.1\nName: muster-test-download\nVersion: 1.0\n")
            archive.writestr("muster_test_download-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            archive.writestr("muster_test_download-1.0.dist-info/RECORD", "")
        with open(self.path(wheel), "rb") as file:
            data = file.read()
        asked = []

        class Index(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                is_file = self.path.endswith(".whl")
                body = data if is_file else f'<a href="/{wheel}">{wheel}</a>'.encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/zip" if is_file else "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                asked.append(self.path)
                self.wfile.write(body[:len(body) // 2] if is_file and asked.count(self.path) == 1 else body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.env.update(PIP_NO_CACHE_DIR="1", PIP_RETRIES="0", PIP_CONFIG_FILE=os.devnull)
        for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "http_proxy", "HTTP_PROXY"):
            self.env.pop(name, None)
        done = self.shell(f"retrying '{sys.executable}' -m pip download -qq --no-deps --no-input -d '{self.path('out')}' "
                          f"--index-url http://127.0.0.1:{server.server_port}/simple muster-test-download")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.path("out")), [wheel])
        self.assertGreaterEqual(asked.count(f"/{wheel}"), 2)

    def test_what_the_network_is_not_to_blame_for_fails_at_once(self):
        done = self.shell("retrying sh -c 'echo \"No matching distribution found\" >&2; exit 7'")
        self.assertEqual((done.returncode, done.stderr), (7, "No matching distribution found\n"))
        self.assertNotIn("again", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

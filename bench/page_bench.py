"""The page and the HTTP under it: what a list costs, what many pages cost those who submit, how fast curves are read, how
soon a browser shows something, and how smoothly it updates after that."""
import asyncio
import gzip
import http.client
import json
import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "e2e"))
import harness  # noqa: E402
from harness import wait_until  # noqa: E402

JOBS, STREAMS, PAGES = 10_000, 300, 50
POINTS, LIVE_POINTS, BUCKETS = 1_000_000, 10_000, 1_000
LOAD = os.path.join(harness.BIN, "bench", "bench_submit")

# Logs LIVE_POINTS points at once, then one every 20 ms.
LIVE_RANK = """
import json, os, socket, sys, time
worker = socket.socket(socket.AF_UNIX); worker.connect(os.environ["MUSTER_SOCKET"])
def send(message): worker.sendall(json.dumps(message).encode() + b"\\n")
send({"type": "hello", "version": 1, "job": int(os.environ["MUSTER_JOB_ID"]), "attempt": 0, "rank": 0, "pid": os.getpid(), "client": "bench/1"})
worker.setblocking(True)
step = seq = 0
def log(count):
    global step, seq
    points = []
    for _ in range(count):
        step += 1
        points.append({"name": "loss", "step": step, "value": 1 / step ** 0.3, "time_ms": int(time.time() * 1000)})
    seq += 1
    send({"type": "metrics", "seq": seq, "points": points})
for _ in range(int(sys.argv[1]) // 1000):
    log(1000)
while True:
    time.sleep(0.02)
    log(1)
"""


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class Address:
    """An HTTP server of Muster and the proof that opens it."""

    def __init__(self, cluster):
        self.url = cluster.api.server().http_address
        with open(os.path.join(cluster.directory, "data", "HTTP-TOKEN")) as file:
            self.token = file.read().strip()
        self.host, self.port = self.url[len("http://"):].split(":")

    def head(self, method, target, body=b"", more=""):
        return (f"{method} {target} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n{more}"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def connection(self):
        return http.client.HTTPConnection(self.host, int(self.port), timeout=120)

    def get(self, connection, target):
        connection.request("GET", target, headers={"Authorization": f"Bearer {self.token}"})
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body[:300]
        return body


async def follow(address, page):
    """One EventSource. A page asks for its rows again after a change, at most four times a second (jobs/store.js)."""
    reader, writer = await asyncio.open_connection(address.host, int(address.port))
    writer.write(f"GET /events HTTP/1.1\r\nHost: {address.host}\r\nAuthorization: Bearer {address.token}\r\n\r\n".encode())
    asks, body = None, b'{"all":true,"limit":60}'
    if page:
        asks = await asyncio.open_connection(address.host, int(address.port))
    due = False
    while data := await reader.read(1 << 18):
        due = due or b"event: change" in data
        if not (page and due):
            continue
        due = False
        await asyncio.sleep(0.25)
        asks[1].write(address.head("POST", "/api/v1/ListJobs", body, "Content-Type: application/json\r\n"))
        head = await asks[0].readuntil(b"\r\n\r\n")
        await asks[0].readexactly(int(re.search(rb"(?i)content-length: (\d+)", head).group(1)))


async def follow_all(address):
    tasks = [asyncio.create_task(follow(address, number >= STREAMS)) for number in range(STREAMS + PAGES)]
    await asyncio.sleep(1)
    print("open", flush=True)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    raise SystemExit("a stream has ended")


def readers(address):
    """The streams and pages, in a separate process that runs when nothing else does: they would be on other machines."""
    process = subprocess.Popen(["chrt", "--idle", "0", sys.executable, os.path.abspath(__file__), json.dumps(vars(address))],
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "open\n"
    return process


def measure_list(table, cluster):
    address = Address(cluster)
    connection = address.connection()
    took = []
    for turn in range(1100):
        began = time.perf_counter()
        body = address.get(connection, "/api/v1/ListJobs?all=true&limit=100")
        if turn >= 100:
            took.append((time.perf_counter() - began) * 1000)
    assert len(json.loads(body)["jobs"]) == 100
    connection.close()
    table.row(f"GET 100 of {JOBS:,} jobs", "ms", [statistics.median(took)], "reported", lambda *_: True,
              note=f"p99 {percentile(took, 0.99):.2f} ms, {len(body) / 1000:.0f} kB")


def measure_submits(table, cluster):
    """The 99th percentile of a submit, with and without watchers, in turns."""
    address = Address(cluster)

    def submit():
        done = subprocess.run([LOAD, cluster.endpoint, "2000", "1"], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)
    alone, watched = [], []
    for turn in range(8):
        one = submit()
        process = readers(address)
        try:
            other = submit()
            assert process.poll() is None, "the streams have ended"
        finally:
            process.kill()
            process.communicate()
        if turn:
            alone.append(one)
            watched.append(other)
    for name, target, good in (("p99_ms", "≤ 1.1 × alone", lambda a, b: a <= 1.1 * b), ("p50_ms", "reported", lambda *_: True)):
        table.row(f"submit, {STREAMS} streams, {PAGES} pages, {name[:3]}", "ms", [each[name] for each in watched], target, good,
                  "alone", [each[name] for each in alone])


def sqlite_query(stage, first, last):
    """The same numbers in a table of SQLite, and the query that decimates them."""
    database = sqlite3.connect(stage.path("points.sqlite"))
    database.execute("CREATE TABLE points (step INTEGER PRIMARY KEY, value REAL NOT NULL, time_ms INTEGER NOT NULL)")
    database.executemany("INSERT INTO points VALUES (?, ?, ?)",
                         ((step, 1 / step, 1_790_000_000_000 + step) for step in range(first, last + 1)))
    database.commit()
    width = (last - first) // BUCKETS + 1
    line = ("SELECT bucket.at, bucket.low, bucket.high, points.value, points.time_ms FROM (SELECT max(step) AS at, "
            "min(value) AS low, max(value) AS high FROM points GROUP BY (step - ?) / ?) AS bucket JOIN points ON step = at")
    return lambda: database.execute(line, (first, width)).fetchall()


def measure_points(table, stage, cluster):
    address = Address(cluster)
    job = cluster.submit("--name", "long", *harness.python_line("losses.py", POINTS), timeout=120)
    cluster.wait_for(job, harness.SUCCEEDED, deadline_s=300)
    connection = address.connection()
    target = f"/api/v1/QueryCurves?job={job}&names=loss&buckets={BUCKETS}"
    seen = []

    def ours():
        curve = json.loads(address.get(connection, target))["curves"][0]
        seen.append((int(curve["points"]), len(curve["steps"])))
    theirs = sqlite_query(stage, 1, POINTS)
    wait_until(lambda: ours() or seen[-1][0] == POINTS, lambda: f"all points, not {seen[-1]}", 60)
    values = [[], []]
    for turn in range(10):
        for side, kept in zip((ours, theirs), values):
            began = time.perf_counter()
            side()
            if turn:
                kept.append(POINTS / (time.perf_counter() - began) / 1e6)
    connection.close()
    first = []
    for _ in range(5):
        cluster.coordinator.kill9()
        cluster.restart_coordinator()
        connection = Address(cluster).connection()
        began = time.perf_counter()
        address.get(connection, target)
        first.append((time.perf_counter() - began) * 1000)
        connection.close()
    table.row(f"curve of {POINTS:,} points", "M/s", values[0], "≥ 1 × SQLite", lambda a, b: a >= b, "SQLite", values[1],
              note=f"{1000 / statistics.median(values[0]):.0f} ms over HTTP, JSON parsed, {seen[-1][1]} buckets")
    table.row("the same, first after a restart", "ms", first, "reported", lambda *_: True)


def sizes_of(address):
    """{name: gzip bytes} of all that a browser may load."""
    connection, sizes = address.connection(), {}
    document = address.get(connection, "/")
    prefix = re.search(rb"/assets/[0-9a-f]+/", document).group(0).decode()
    for name in harness.page_files():
        connection.request("GET", prefix + name, headers={"Authorization": f"Bearer {address.token}", "Accept-Encoding": "gzip"})
        response = connection.getresponse()
        sizes[name] = len(response.read())
        assert response.status == 200, name
    sizes["index.html"] = len(gzip.compress(document, 9))
    return sizes


def measure_weight(table, cluster):
    sizes = sizes_of(Address(cluster))
    most = sorted(sizes.items(), key=lambda each: -each[1])
    table.row("page, all its files, gzip", "KiB", [sum(sizes.values()) / 1024], "≤ 120 KiB", lambda a, _: a <= 120,
              note=f"{len(sizes)} files: " + ", ".join(f"{name} {size / 1024:.1f}" for name, size in most[:4]))


def signed_in(browser, cluster):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(cluster.jobctl("ui", "--no-open").stdout.strip())
    page.wait_for_url(re.compile(r"^http://[^/]*/$"))
    page.get_by_role("row").nth(1).wait_for()
    return page


def first_rows_ms(page, url):
    page.goto(url)
    page.wait_for_function("performance.getEntriesByName('muster-first-rows').length")
    return page.evaluate("performance.getEntriesByName('muster-first-rows')[0].startTime")


def measure_first_table(table, browser, cluster):
    url = Address(cluster).url + "/"
    page = signed_in(browser, cluster)
    warm = [first_rows_ms(page, url) for _ in range(12)][2:]
    table.row(f"first rows of {JOBS:,} jobs, again", "ms", warm, "≤ 100 ms", lambda a, _: a <= 100)
    session = page.context.new_cdp_session(page)
    cold = []
    for _ in range(8):
        session.send("Network.clearBrowserCache")
        cold.append(first_rows_ms(page, url))
    page.context.close()
    table.row(f"first rows of {JOBS:,} jobs, nothing cached", "ms", cold[1:], "≤ 100 ms", lambda a, _: a <= 100)


FRAMES = """() => new Promise((done) => {
  let frames = 0, worst = 0, last = performance.now();
  const began = last;
  const count = (now) => {
    frames += 1;
    worst = Math.max(worst, now - last);
    last = now;
    if (now - began < 5000) requestAnimationFrame(count);
    else done([frames / (now - began) * 1000, worst]);
  };
  requestAnimationFrame(count);
})"""


def measure_frames(table, browser, stage):
    cluster = harness.Cluster(stage, name="live", coordinator_args=("--http", "127.0.0.1:0")).start()
    cluster.add_worker("node1", "cpu:1")
    job = cluster.submit("--name", "live", "--", sys.executable, "-S", "-c", LIVE_RANK, LIVE_POINTS)
    cluster.wait_for(job, harness.RUNNING)
    page = signed_in(browser, cluster)
    page.goto(f"{Address(cluster).url}/jobs/{job}")
    page.locator("[data-metric=loss] canvas").first.wait_for()
    label = page.locator("[data-metric=loss] [role=img]")
    wait_until(lambda: int(re.search(r"to step (\d+)", label.get_attribute("aria-label") or "to step 0").group(1)) >= LIVE_POINTS,
               "the points are drawn")
    before = label.get_attribute("aria-label")
    rates, worst = zip(*[page.evaluate(FRAMES) for _ in range(3)])
    assert label.get_attribute("aria-label") != before, "the curve did not grow"
    page.context.close()
    cluster.jobctl("cancel", job, "--grace", "1s")
    table.row(f"frames with {LIVE_POINTS:,} live points", "/s", list(rates), "≥ 59 /s", lambda a, _: a >= 59,
              note=f"longest {max(worst):.0f} ms; headless, drawn by the processor")


def measure_browser(table, stage, cluster):
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return print("first rows, frames: not measured, playwright is not installed")
    if shutil.which("chromium") is None:
        return print("first rows, frames: not measured, chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"),
                                             args=["--no-sandbox", "--disable-background-networking"])
        try:
            measure_first_table(table, browser, cluster)
            measure_frames(table, browser, stage)
        finally:
            browser.close()


def bench_page(table, stage):
    cluster = harness.Cluster(stage, coordinator_args=("--http", "127.0.0.1:0")).start()
    subprocess.run([LOAD, cluster.endpoint, str(JOBS), "512"], check=True, stdout=subprocess.DEVNULL)
    measure_weight(table, cluster)
    measure_list(table, cluster)
    measure_browser(table, stage, cluster)
    points = harness.Cluster(stage, name="p", coordinator_args=("--http", "127.0.0.1:0")).start()
    points.add_worker("node1", "cpu:1")
    measure_points(table, stage, points)
    points.coordinator.stop()
    # Last, because it adds jobs.
    measure_submits(table, cluster)


if __name__ == "__main__":  # the streams, see readers()
    reached = Address.__new__(Address)
    vars(reached).update(json.loads(sys.argv[1]))
    asyncio.run(follow_all(reached))

"""One mechanism per job: what asks a server over HTTP, starts a process, replaces a file or writes JSON is in one place,
and the second one is found here. Used by lint.py.

Each job has its home, a pattern that its second mechanism cannot do without, and the few other places that the pattern
also meets, each with what it does there instead. The SDK and its examples link nothing of the rest, and have homes of
their own; Python's are Python's libraries.
"""
import re
from dataclasses import dataclass, field

import rooms

PRODUCT = rf"^{rooms.PRODUCT}/.*\.(cc|h)$"
SDK = r"^(trainer|examples)/.*\.(cc|h|cpp)$"


@dataclass
class Job:
    concerned: str           # files, as a pattern
    home: str                # files, as a pattern
    second: str              # what only a second mechanism would have; comments do not count
    remedy: str
    elsewhere: dict = field(default_factory=dict)  # path, or folder/: what it is there


JOBS = (
    Job(PRODUCT + "|" + SDK, r"^common/http/",
        r'"(GET|POST|PUT|PATCH|HEAD|DELETE) "| HTTP/1\.[01]\\r\\n|\bSSL_connect\(|\bSSL_set_connect_state\(|'
        r'\bTLS_client_method\(|#include\s+[<"](curl/|httplib|boost/beast/.*/(ssl_)?client)',
        "a second HTTP client: ask with CallHttp (common/http/client.h)",
        {"coordinator/http/": "the server", "common/secret_tls.cc": "TLS between nodes, no HTTP",
         "rendezvous/link.cc": "the same", "worker/checkpoints/peer_link.cc": "the same"}),
    Job(PRODUCT, r"^common/kernel/process_start\.cc$",
        r"\bposix_spawnp?\b|\bposix_spawn_file_actions_|\bposix_spawnattr_|\b(vfork|clone3?)\s*\(|\bSYS_clone|\b(execv\w*|execl\w*|fexecve)\s*\(",
        "a second way to start a process: StartProcess (common/kernel/process_start.h)",
        {"shim/": "it forks its ranks, one thread and no allocator's lock",
         "coordinator/standing_by.cc": "the same process starts over", "unwind/": "none, and it stays so"}),
    Job(PRODUCT, r"^common/files/plain_files\.cc$",
        r"(?<![.>])\brename(at2?)?\s*\(|\bSYS_rename",
        "replace a file with WriteFileDurably or WriteFileAtomically (common/files/files.h); if it moves something, "
        "say what in tests/lint/one_mechanism.py",
        {"client/machine/output_file.cc": "content that is streamed into a file without a name",
         "client/files/pull_target.cc": "a download of many pieces, below a directory that is held open",
         "common/files/remove_tree.cc": "directories that are too deep to remove in place",
         "coordinator/care/copy_file.cc": "a copy of any size, synced with its file system",
         "coordinator/sqlite/state_care.cc": "a database that was built beside",
         "coordinator/local/blob_check.cc": "a damaged blob, set aside",
         "coordinator/local/blob_store.cc": "an upload of any size",
         "coordinator/object_files/object_files.cc": "an object of any size, where there are no links",
         "coordinator/object_files/uploads.cc": "a part of an upload, of any size",
         "coordinator/segments/writer.cc": "a damaged segment, set aside",
         "coordinator/sqlite/replica.cc": "a database that was received beside",
         "worker/preparation/image_step.cc": "an unpacked image, and a blob of it",
         "worker/preparation/layout_files.cc": "a blob of a layout that is ours",
         "worker/preparation/code_cache.cc": "directories that are thrown away",
         "worker/preparation/take_over.cc": "a copy of any size, below a directory that is held open",
         "worker/preparation/tree_step.cc": "an unpacked tree",
         "worker/checkpoints/transfers.cc": "the directory of a checkpoint"}),
    Job(r"^trainer/src/.*\.cc$", r"^trainer/src/base/files\.cc$",
        r"(?<![.>])\brename(at2?)?\s*\(",
        "replace a file with write_file_durably, write_file_atomically or move_into_place (base/files.h)",
        {"trainer/src/checkpoint/retention.cc": "a checkpoint, before it is removed",
         "trainer/src/tracking/csv_table.cc": "a table of any length, with a tracker's errors"}),
    Job(PRODUCT, r"^common/text/json_text\.(cc|h)$",
        r'\\"\w+\\":\s?(\\"|"|[\[{\d]|true|false|null)|\{\\"',
        "JSON by hand: JsonObject and JsonArray (common/text/json_text.h)",
        {"client/commands/plan.cc": "a person is told what to print",
         "client/follow/log_printer.cc": "a member of each line, millions of them, after a prefix that JsonObject made",
         "client/terminal/record_json.cc": "lays records out over several lines",
         "coordinator/http/api/api.cc": "puts brackets around messages that protobuf wrote",
         "worker/preparation/layout_files.cc": "a constant that OCI prescribes"}),
)

COMMENT = re.compile(r"(^|\s)//.*")


def is_elsewhere(job, path):
    return any(path == place or (place.endswith("/") and path.startswith(place)) for place in job.elsewhere)


def findings(sources):
    """`sources` are (path, lines) of C++ files. Yields (path, line number, what is wrong)."""
    for path, lines in sources:
        for job in JOBS:
            if not re.match(job.concerned, path) or re.match(job.home, path) or is_elsewhere(job, path):
                continue
            for number, line in enumerate(lines, 1):
                if re.search(job.second, COMMENT.sub("", line)):
                    yield path, number, f"{line.strip()[:50]}: {job.remedy}"


def stale(sources):
    """Places that are excused for what they no longer do. `sources` must be the whole tree."""
    for job in JOBS:
        for place in job.elsewhere:
            of_place = [(path, lines) for path, lines in sources
                        if path == place or (place.endswith("/") and path.startswith(place))]
            if place.endswith("/"):
                continue
            if not any(re.search(job.second, COMMENT.sub("", line)) for _, lines in of_place for line in lines):
                yield "tests/lint/one_mechanism.py", 1, f"{place} is excused, and has nothing to excuse: remove it"

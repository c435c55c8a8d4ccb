"""The rooms of the house, and which may include which: the one table of layers, for lint.py and for the picture in
ARCHITECTURE.md (tests/lint/draw_rooms.py). A room is a folder of C++ sources. It may include its own headers, those of
rooms on lower floors of its area, and those of the areas that its own area sees. Rooms of one floor do not see each
other, so no two rooms can include each other, and no chain of rooms leads back.
"""
import os
import re

# An area is a program or a library: which other areas it may include. "proto" stands for muster/v1/*.pb.h;
# common/job is only for those that name it.
AREAS = {
    "common": ("proto",),
    "identity": ("common", "proto"),
    "tree": ("common",),
    "compare": ("common",),
    "shim": ("common",),
    "unwind": ("common",),
    "rendezvous": ("common",),
    "coordinator": ("common", "common/job", "compare", "identity", "page", "proto", "tree"),
    "worker": ("common", "common/job", "identity", "proto", "tree"),
    "replay": ("common", "common/job", "coordinator", "proto"),
    "client": ("common", "common/job", "compare", "identity", "proto", "replay", "tree"),
    "trainer": (),
    "examples": ("trainer",),
    "bench": ("common", "identity", "proto", "rendezvous", "tree", "trainer", "worker"),
}

# The areas of the programs that are installed, and the same as a pattern. Who must know of each takes them from here, so
# that a new one is in every list.
PRODUCT_AREAS = tuple(sorted(set(AREAS) - {"trainer", "examples", "bench"}))
PRODUCT = f"(?:{'|'.join(PRODUCT_AREAS)})"

# Floors of an area, from the lowest up; "." is the area's own folder. An area that is not here is one room.
FLOORS = {
    "common": [
        ["base", "text"],
        ["files"],
        ["hash"],
        [".", "kernel", "tensorboard"],
        ["http", "job", "lines"],
    ],
    "coordinator": [
        ["base", "core/state", "etcd", "net", "oidc", "segments"],
        ["core/scheduling", "election", "stores"],
        ["audit", "core/views", "curves", "identity", "logs", "sqlite/database"],
        ["core/outcome", "findings", "http/server", "store_parts"],
        ["core/decide", "http/admission", "local", "object_files", "packs", "s3", "sqlite/archive"],
        ["core", "sqlite"],
        ["loop"],
        ["contexts", "notify"],
        ["code", "config", "exec"],
        ["gates"],
        ["care", "heads", "periodic"],
        ["calls"],
        ["http/api", "http/metrics", "http/pages", "services"],
        ["http/sign_in"],
        ["http"],
        ["."],
    ],
    "worker": [
        ["core", "limits", "rendezvous"],
        ["base"],
        ["confinement", "devices", "links", "membership"],
        ["launch", "sampling"],
        ["containers", "inspection"],
        ["exec", "preparation"],
        ["checkpoints"],
        ["events"],
        ["output"],
        ["attempts"],
        ["."],
    ],
    "client": [
        ["command_line", "machine"],
        ["connection", "job_file", "terminal"],
        ["text"],
        ["compare", "launchers", "session"],
        ["diagnosis", "doctor", "export", "files", "follow", "help", "installed"],
        ["cluster", "code"],
        ["submit"],
        ["commands"],
        ["."],
    ],
    # The SDK's areas: trainer/src/AREA with trainer/include/muster/AREA (sdk_layers.py).
    "trainer": [
        ["base"],
        ["device", "profiling", "tracking", "values"],
        ["diagnosis", "memory"],
        ["parallel"],
        ["checkpoint", "collectives", "sharding"],
        ["data", "optim"],
        ["precision"],
        ["exported", "interchange"],
        ["accelerator"],
    ],
}

# Rooms that see less than their area: what of other areas, or which headers of a lower room. A name with a slash at its
# end stands for all rooms below it.
CORE_SEES = ("common", "common/job", "proto")
SEES_AREAS = {
    "coordinator/core": CORE_SEES,
    "coordinator/core/": CORE_SEES,
    "coordinator/findings": CORE_SEES,
    "coordinator/segments": ("common",),
    "worker/core": CORE_SEES,
}
# Verdicts are made of the state alone: nothing there may know what prints them, or decides anything else.
SEES_HEADERS = {
    "coordinator/core/scheduling": ("coordinator/core/state", ("asides.h", "blockers.h", "job_records.h", "order.h", "owner.h",
                                                               "rendezvous.h", "state.h")),
}

# Rooms that not every room above them may know: who alone includes them, besides the room itself: rooms or files.
HTTP_USERS = ("coordinator/coordinator.cc", "coordinator/flags.cc", "coordinator/main.cc",
              "coordinator/standing_by.cc")
KNOWN_TO = {
    # An engine behind coordinator/stores/ is known to the one place that opens it. The commands that care for a data
    # directory know local/ besides, whose files are below it.
    "coordinator/local": ("coordinator/config/open_stores.cc", "coordinator/care"),
    "coordinator/sqlite": ("coordinator/config/open_stores.cc",),
    "coordinator/sqlite/": ("coordinator/config/open_stores.cc", "coordinator/sqlite/", "coordinator/sqlite"),
    "coordinator/object_files": ("coordinator/config/open_stores.cc",),
    "coordinator/packs": ("coordinator/config/open_stores.cc",),
    "coordinator/s3": ("coordinator/config/open_stores.cc",),
    # The transports.
    "coordinator/services": ("coordinator/coordinator.cc", "coordinator/standing_by.cc"),
    "coordinator/http": HTTP_USERS,
    "coordinator/http/": (*HTTP_USERS, "coordinator/http/", "coordinator/http"),
    "coordinator/core/outcome": ("coordinator/core", "coordinator/core/"),
    "coordinator/core/decide": ("coordinator/core", "coordinator/core/", "coordinator/calls", "coordinator/contexts"),
}

# No thread, clock, file, random number or log. A name with a slash at its end stands for all rooms below it.
PURE = ("common/job", "compare", "replay", "coordinator/core", "coordinator/core/", "coordinator/election", "coordinator/findings",
        "worker/core")

# A room has at most so many files; a flat list of like things may be longer.
FILES_MAX = 42
FILES_WITH_README = 2
FLAT_LISTS = ("client/commands", "coordinator/calls")


def floors():
    """{room: (area, number of its floor)}."""
    found = {}
    for area in AREAS:
        for number, names in enumerate(FLOORS.get(area, [["."]]), 1):
            for name in names:
                found[area if name == "." else f"{area}/{name}"] = (area, number)
    return found


FLOOR_OF = floors()


def room_of(path):
    """The room of a source, a header, or None (tests see everything; the SDK has its own shape, sdk_layers.py)."""
    area = path.split("/", 1)[0]
    if area not in AREAS or area == "trainer":
        return None
    return os.path.dirname(path) if area in FLOORS else area


def in_list(room, names):
    return any(room.startswith(name) if name.endswith("/") else room == name for name in names)


def is_pure(path):
    room = room_of(path)
    return room is not None and in_list(room, PURE)


def area_of_header(header):
    if header.startswith("muster/v1/"):
        return "proto"
    if header.startswith("muster/"):
        return "trainer"
    if header.startswith("common/job/"):
        return "common/job"
    area = header.split("/", 1)[0]
    return area if "/" in header and area in (*AREAS, "page") else None


def include_finding(path, header):
    """What is wrong with `path` including `header` (as it is written there), or None."""
    area, room = path.split("/", 1)[0], room_of(path)
    target_area = area_of_header(header)
    if area not in AREAS or target_area is None:
        return None
    if target_area.split("/")[0] != area:
        seen = next((areas for name, areas in SEES_AREAS.items() if room and in_list(room, (name,))), AREAS[area])
        if target_area in seen:
            return None
        return f"{room or area} may not include {header}: it sees only {', '.join((area, *seen))}"
    target = room_of(header)
    if room is None or room == target:
        return None
    if target not in FLOOR_OF:
        return f"{header} is in no room: name {target} in tests/lint/rooms.py"
    if room in FLOOR_OF and FLOOR_OF[target][1] >= FLOOR_OF[room][1]:
        return (f"{room} (floor {FLOOR_OF[room][1]}) may not include {header} (floor {FLOOR_OF[target][1]}): a room "
                "includes only lower floors; move what both need below both")
    lower, names = SEES_HEADERS.get(room, (None, ()))
    if target == lower and os.path.basename(header) not in names:
        return f"{room} may not include {header}: of {lower} it sees only {', '.join(names)}"
    for known, users in KNOWN_TO.items():
        if in_list(target, (known,)) and not in_list(room, users) and path not in users:
            return f"{room} may not include {header}: {known} is known to {', '.join(users)} alone"
    return None


def house_findings(paths):
    """(path, line, what is wrong) for folders that are not rooms, rooms without files or a README, and rooms that are too
    large."""
    sizes = {}
    for path in paths:
        room = room_of(path) if re.search(r"\.(h|cc)$", path) else None
        if room is None:
            continue
        sizes[room] = sizes.get(room, 0) + 1
        if room not in FLOOR_OF and sizes[room] == 1:
            yield path, 1, f"{room} is not a room: put the file into one, or name the folder in tests/lint/rooms.py"
    for room, size in sorted(sizes.items()):
        if size > FILES_MAX and room not in FLAT_LISTS and room in FLOOR_OF:
            yield "tests/lint/rooms.py", 1, f"{room} has {size} files, more than {FILES_MAX}: divide it"
        if size >= FILES_WITH_README and room in FLOOR_OF and f"{room}/README.md" not in paths:
            yield f"{room}/README.md", 1, f"{room} has {size} files and no README.md of a few lines: what it is, where to change what"
    for room, (area, _) in FLOOR_OF.items():
        if area != "trainer" and area in FLOORS and room not in sizes and paths:
            yield "tests/lint/rooms.py", 1, f"{room} has no file: remove its name"

"""Reads a directory of traces without the SDK: read_trace.py TOOL DIRECTORY CYCLE. Prints "name value" lines."""
import importlib.util
import json
import os
import sys

spec = importlib.util.spec_from_file_location("trace_timeline", sys.argv[1])
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def nests(events):
    """Any two events of a thread are disjoint or nested, up to a nanosecond of rounding."""
    open_ends = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while open_ends and open_ends[-1] <= event["ts"] + 0.001:
            open_ends.pop()
        end = event["ts"] + event["dur"]
        if open_ends and end > open_ends[-1] + 0.001:
            return False
        open_ends.append(end)
    return True


cycle, traces = tool.find_traces(sys.argv[2], int(sys.argv[3]))
for trace in traces:
    names = {event["name"] for event in trace.events}
    threads = {event["tid"] for event in trace.events}
    path = os.path.join(sys.argv[2], f"summary-rank-{trace.rank:05d}-cycle-{cycle}.json")
    summary = json.load(open(path))
    overlap = summary["overlap"]
    measured = {"communication_s": trace.communication, "compute_s": trace.compute, "overlapped_s": trace.both}
    differences = [abs(tool.length(pieces) / 1e6 - overlap[key]) for key, pieces in measured.items()]
    print(f"rank{trace.rank}_world_size", trace.world_size)
    print(f"rank{trace.rank}_steps", " ".join(sorted(step["name"] for step in trace.steps)))
    print(f"rank{trace.rank}_nests", all(nests([event for event in trace.events if event["tid"] == thread])
                                         for thread in threads))
    print(f"rank{trace.rank}_communication",
          " ".join(sorted(name for name in names if name.startswith(tool.COMMUNICATION))))
    print(f"rank{trace.rank}_has_operators", {"aten::addmm", "AddmmBackward0"} <= names)
    # Each event is rounded to nanoseconds.
    print(f"rank{trace.rank}_same_overlap", max(differences) < 1e-4)
    print(f"rank{trace.rank}_communicates", overlap["communication_s"] > 0)
    print(f"rank{trace.rank}_fraction_fits", 0 <= overlap["fraction"] <= 1)
    print(f"rank{trace.rank}_trace_named", summary["trace"] == os.path.basename(trace.path))
with open(os.path.join(sys.argv[2], "timeline.svg"), "w") as file:
    file.write(tool.svg(cycle, traces))

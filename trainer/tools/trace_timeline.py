#!/usr/bin/env python3
"""Summarizes and draws the traces of muster::Profiler.

    trace_timeline.py DIRECTORY            the newest cycle of all ranks in it
    trace_timeline.py DIRECTORY --cycle 0  another one
    trace_timeline.py DIRECTORY --svg timeline.svg

Prints for each rank how long it communicated, how long it computed, and how much of the communication
was hidden behind compute, computed from the trace alone. The picture has two lanes per rank.
Reads trace-rank-RRRRR-cycle-N.json (docs/profiling.md); needs nothing but Python.
"""
import argparse
import glob
import json
import os
import re
import sys

COMMUNICATION = ("gloo:", "shared_memory:", "nccl:", "hccl:", "ucc:", "xccl:")
NO_COMPUTE = ("wait:", "c10d::", "record_param_comms")
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")


def united(intervals):
    """Merges intervals into sorted, disjoint ones."""
    pieces = []
    for begin, end in sorted(piece for piece in intervals if piece[1] > piece[0]):
        if pieces and begin <= pieces[-1][1]:
            pieces[-1][1] = max(pieces[-1][1], end)
        else:
            pieces.append([begin, end])
    return pieces


def without(pieces, holes):
    """The parts of merged `pieces` outside merged `holes`."""
    rest = []
    for begin, end in pieces:
        for hole_begin, hole_end in holes:
            if hole_end <= begin:
                continue
            if hole_begin >= end:
                break
            if hole_begin > begin:
                rest.append([begin, hole_begin])
            begin = max(begin, hole_end)
        if begin < end:
            rest.append([begin, end])
    return rest


def common(a, b):
    """The intersection of two merged lists."""
    both, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            both.append([begin, end])
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return both


def length(pieces):
    return sum(end - begin for begin, end in pieces)


class Trace:
    """One rank's trace; times in microseconds."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        self.path = path
        self.rank = content["distributedInfo"]["rank"]
        self.world_size = content["distributedInfo"]["world_size"]
        self.events = [event for event in content["traceEvents"]
                       if event["ph"] == "X" and event.get("cat") != "Trace"]
        # A collective that had not finished gets the end of the recording, which is later than
        # every recorded event.
        last = max(event["ts"] + event["dur"] for event in self.events
                   if event.get("args", {}).get("finished", True))
        for event in self.events:
            event["dur"] = max(min(event["dur"], last - event["ts"]), 0)
        self.steps = [event for event in self.events if event["name"].startswith("ProfilerStep#")
                      and event["cat"] == "user_annotation"]
        kernels = [event for event in self.events if event["cat"] in KERNELS]
        if kernels:
            self.communication = self.of(kernels, lambda name: name.startswith(("nccl", "hcom_")))
            self.compute = self.of([event for event in kernels if event["cat"] == "kernel"],
                                   lambda name: not name.startswith(("nccl", "hcom_")))
        else:
            self.communication = self.of(self.events, lambda name: name.startswith(COMMUNICATION))
            self.compute = self.cpu_compute()
        self.both = common(self.communication, self.compute)

    @staticmethod
    def of(events, chosen):
        return united((event["ts"], event["ts"] + event["dur"]) for event in events if chosen(event["name"]))

    def cpu_compute(self):
        """Operators of each thread, without the communication and waiting inside them."""
        compute = []
        for thread in {event["tid"] for event in self.events}:
            own = [event for event in self.events if event["tid"] == thread]
            other = COMMUNICATION + NO_COMPUTE
            operators = self.of([event for event in own if event["cat"] == "cpu_op"],
                                lambda name: not name.startswith(other))
            compute += without(operators, self.of(own, lambda name: name.startswith(other)))
        return united(compute)

    def fraction(self):
        return length(self.both) / length(self.communication) if self.communication else 1.0


def find_traces(directory, cycle):
    found = {}
    for path in glob.glob(os.path.join(directory, "trace-rank-*-cycle-*.json")):
        numbers = re.search(r"trace-rank-(\d+)-cycle-(\d+)\.json$", path)
        found.setdefault(int(numbers.group(2)), []).append(path)
    if not found:
        sys.exit(f"{directory} contains no trace-rank-RRRRR-cycle-N.json")
    chosen = max(found) if cycle is None else cycle
    if chosen not in found:
        sys.exit(f"{directory} contains cycles {sorted(found)}, not {chosen}")
    return chosen, [Trace(path) for path in sorted(found[chosen])]


def print_table(cycle, traces):
    print(f"cycle {cycle}, times in ms")
    print(f"{'rank':>5} {'steps':>6} {'communication':>14} {'compute':>10} {'both at once':>13} {'hidden':>7}")
    for trace in traces:
        print(f"{trace.rank:>5} {len(trace.steps):>6} {length(trace.communication) / 1e3:>14.1f} "
              f"{length(trace.compute) / 1e3:>10.1f} {length(trace.both) / 1e3:>13.1f} "
              f"{trace.fraction() * 100:>6.0f}%")


def svg(cycle, traces):
    """Two lanes per rank, communication above compute, and a line per step."""
    width, left, lane, gap = 1000, 70, 18, 14
    begins = [min(event["ts"] for event in trace.events) for trace in traces]
    ends = [max(event["ts"] + event["dur"] for event in trace.events) for trace in traces]
    longest = max(end - begin for begin, end in zip(begins, ends))
    # Different machines have different clocks: each rank then starts at its own first event.
    together = max(begins) - min(begins) < longest
    span = (max(ends) - min(begins)) if together else longest
    height = 40 + len(traces) * (2 * lane + gap) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + left + 20}" height="{height}" '
           f'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="20">cycle {cycle}: <tspan fill="#c2410c">communication</tspan> over '
           f'<tspan fill="#1d4ed8">compute</tspan>; {span / 1e3:.1f} ms</text>']
    for index, trace in enumerate(traces):
        zero = min(begins) if together else begins[index]
        top = 36 + index * (2 * lane + gap)

        def x(time):
            return left + (time - zero) / span * width

        out.append(f'<text x="4" y="{top + lane}">rank {trace.rank}</text>')
        out.append(f'<text x="4" y="{top + lane + 14}" font-size="10">{trace.fraction() * 100:.0f} % hidden</text>')
        for pieces, y, color in ((trace.communication, top, "#c2410c"), (trace.compute, top + lane, "#1d4ed8")):
            for begin, end in pieces:
                out.append(f'<rect x="{x(begin):.2f}" y="{y}" width="{max(x(end) - x(begin), 0.1):.2f}" '
                           f'height="{lane - 2}" fill="{color}"/>')
        for step in trace.steps:
            out.append(f'<line x1="{x(step["ts"]):.2f}" x2="{x(step["ts"]):.2f}" y1="{top - 4}" '
                       f'y2="{top + 2 * lane}" stroke="#555" stroke-dasharray="2 2"/>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--cycle", type=int, help="which cycle (default: the newest)")
    parser.add_argument("--svg", metavar="FILE", help="write a picture to FILE")
    arguments = parser.parse_args()
    cycle, traces = find_traces(arguments.directory, arguments.cycle)
    print_table(cycle, traces)
    if arguments.svg:
        with open(arguments.svg, "w", encoding="utf-8") as file:
            file.write(svg(cycle, traces))


if __name__ == "__main__":
    main()

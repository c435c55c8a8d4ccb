#!/usr/bin/env python3
"""What independent readers see in the trackers' files, as one line of JSON on stdout.

    read_trackers.py events FILE        TensorBoard's loader: how many events of FILE are complete
    read_trackers.py tensorboard DIR    TensorBoard's accumulators, on one run
    read_trackers.py hparams DIR        TensorBoard's HParams plug-in, on a directory of runs
    read_trackers.py jsonl FILE         Python's json, line by line
    read_trackers.py csv FILE           Python's csv
    read_trackers.py histograms FILE    SummaryWriter's histogram of each line of numbers in FILE
"""
import csv
import io
import json
import math
import os
import sys
import tempfile


def pixels_of(png):
    """What Pillow, which TensorBoard brings, sees in a PNG; checks each chunk's checksum."""
    from PIL import Image
    image = Image.open(io.BytesIO(png))
    image.verify()
    image = Image.open(io.BytesIO(png))
    pixels = image.tobytes()
    return {"width": image.width, "height": image.height, "mode": image.mode, "sum": sum(pixels),
            "bytes": len(png), "first": list(pixels[:8])}


def read_events(path):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    events = list(EventFileLoader(path).Load())
    return {"events": len(events), "file_version": events[0].file_version if events else "",
            "writer": events[0].source_metadata.writer if events else ""}


def load_runs(directory):
    from tensorboard.backend.event_processing import plugin_event_multiplexer
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(directory)
    multiplexer.Reload()
    return multiplexer


def read_hparams(directory):
    from tensorboard.backend.event_processing import data_provider
    from tensorboard.context import RequestContext
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment
    from tensorboard.plugins.hparams import list_session_groups
    multiplexer = load_runs(directory)
    provider = data_provider.MultiplexerDataProvider(multiplexer, directory)
    context = backend_context.Context(base_plugin.TBContext(
        logdir=directory, multiplexer=multiplexer, data_provider=provider))
    experiment = get_experiment.Handler(
        RequestContext(), context, "", api_pb2.GetExperimentRequest()).run()
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=100,
        allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_RUNNING, api_pb2.STATUS_UNKNOWN],
        col_params=[api_pb2.ColParams(metric=m.name) for m in experiment.metric_infos])
    groups = list_session_groups.Handler(RequestContext(), context, "", request).run().session_groups
    plain = lambda value: getattr(value, value.WhichOneof("kind"))
    return {
        "columns": sorted(info.name for info in experiment.hparam_infos),
        "groups": [{
            "name": group.name,
            "hparams": {name: plain(value) for name, value in group.hparams.items()},
            "metrics": {m.name.tag: m.value for m in group.metric_values},
            "status": api_pb2.Status.Name(group.sessions[0].status),
        } for group in groups],
    }


def read_tensorboard(directory):
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.util import tensor_util
    classic = event_accumulator.EventAccumulator(
        directory, size_guidance={"scalars": 0, "histograms": 0, "images": 0})
    classic.Reload()
    run = load_runs(directory).GetAccumulator(".")
    kinds = {tag: run.SummaryMetadata(tag).plugin_data.plugin_name for tag in run.Tags()["tensors"]}
    texts = {tag: [[e.step, x.decode()] for e in run.Tensors(tag)
                   for x in tensor_util.make_ndarray(e.tensor_proto).reshape(-1)]
             for tag, kind in kinds.items() if kind == "text"}
    return {
        "scalars": {tag: [[e.step, e.value if math.isfinite(e.value) else str(e.value), e.wall_time]
                          for e in classic.Scalars(tag)]
                    for tag in classic.Tags()["scalars"]},
        "histograms": {tag: [{"step": e.step, **vars(e.histogram_value)}
                             for e in classic.Histograms(tag)]
                       for tag in classic.Tags()["histograms"]},
        "images": {tag: [{"step": e.step, **pixels_of(e.encoded_image_string)}
                         for e in classic.Images(tag)] for tag in classic.Tags()["images"]},
        "texts": texts, "plugins": kinds,
    }


def read_jsonl(path):
    def refuse(word):
        raise ValueError(word + " is not JSON")
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line, parse_constant=refuse) for line in file]
    for line in lines:
        if line.get("kind") == "image":
            with open(os.path.join(os.path.dirname(path), line["file"]), "rb") as image:
                line["pixels"] = pixels_of(image.read())
    return {"lines": lines, "values": [repr(float(line["value"])) for line in lines if "kind" not in line]}


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    numbers = [[None if cell == "" else repr(float(cell)) for cell in row] for row in rows[1:]]
    return {"header": rows[0] if rows else [], "rows": numbers}


def read_histograms(path):
    import numpy
    from torch.utils.tensorboard.summary import make_histogram
    from torch.utils.tensorboard import SummaryWriter
    with tempfile.TemporaryDirectory() as directory, SummaryWriter(directory) as writer:
        bins = writer.default_bins
    found = []
    with open(path) as file:
        for line in file:
            values = numpy.array([float.fromhex(word) for word in line.split()])
            histogram = make_histogram(values, bins)
            found.append({"min": histogram.min, "max": histogram.max, "num": histogram.num,
                          "sum": histogram.sum, "sum_squares": histogram.sum_squares,
                          "limits": list(histogram.bucket_limit), "counts": list(histogram.bucket)})
    return {"histograms": found}


def main():
    readers = {"events": read_events, "tensorboard": read_tensorboard, "hparams": read_hparams,
               "jsonl": read_jsonl, "csv": read_csv, "histograms": read_histograms}
    print(json.dumps(readers[sys.argv[1]](sys.argv[2])))


main()

"""Writes a net for muster::ExportedModel, which trains it in C++: `python -m muster.export MODULE:FACTORY -o net.pt2`.

The factory returns the net and its sample inputs: a tuple of positional ones, or a dict of named ones:

    def make_net():
        return Net(), (torch.zeros(4, 3, 32, 32), torch.zeros(4, dtype=torch.long))

    def gpt2():  # of Hugging Face
        config = GPT2Config(n_layer=4, use_cache=False)
        ids = torch.zeros(2, 64, dtype=torch.long)
        return GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}

The file is one of torch.export.save, with the graph in training mode; beside it lies the graph in evaluation mode, over the
same weights. torch.export.load reads the first, and C++ both. Sizes are those of the samples, except where --dynamic says
otherwise: `--dynamic x:0` lets the first dimension of input x vary, `x:0=2..64` within these bounds, `x:0=batch` gives it a
name, and dimensions of one name are equal.

Needs torch (2.11 to 2.14), which is imported only when something is exported.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

__all__ = ["main", "save"]

# Read by trainer/src/exported/exported_archive.cc.
EVALUATION = "extra/muster/evaluation.json"
EVALUATION_CONSTANTS = "extra/muster/evaluation.pt"


def save(
    net: Any,
    path: str | Path,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
) -> None:
    """Writes the net's graphs in both modes and its weights; the arguments are those of torch.export.export."""
    import torch

    args, kwargs = _distinct((tuple(args), dict(kwargs or {})))
    modes = [(module, module.training) for module in net.modules()]
    programs = {}
    try:
        for mode in (True, False):
            _set_modes(modes)
            if net.training is not mode:  # else parts of it may be in the other mode, as the caller wants
                net.train(mode)
            programs[mode] = torch.export.export(
                net, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict
            )
    finally:
        _set_modes(modes)
    path = Path(path)
    with tempfile.TemporaryDirectory(dir=path.parent or ".", prefix=f".{path.name}.") as directory:
        whole, other = Path(directory) / "model.pt2", Path(directory) / "evaluation.pt2"
        torch.export.save(programs[True], whole)
        torch.export.save(programs[False], other)
        _add_evaluation(whole, other, _own_constants(programs[False], programs[True]))
        whole.replace(path)


def _set_modes(modes: list[tuple[Any, bool]]) -> None:
    for module, training in modes:
        module.training = training


def _distinct(inputs: Any) -> Any:
    """The inputs without a tensor that is there twice: the graph would read one input for both."""
    from torch import Tensor
    from torch.utils._pytree import tree_map_only

    seen: set[int] = set()

    def once(tensor: Tensor) -> Tensor:
        if id(tensor) in seen:
            return tensor.clone()
        seen.add(id(tensor))
        return tensor

    return tree_map_only(Tensor, once, inputs)


def _own_constants(program: Any, other: Any) -> dict[str, Any]:
    """The constants of one program that the other does not have, or has with another value."""
    import torch

    own = {}
    for name, value in program.constants.items():
        known = other.constants.get(name)
        both = isinstance(value, torch.Tensor) and isinstance(known, torch.Tensor)
        if not both or value.dtype != known.dtype or not torch.equal(value, known):
            own[name] = value.contiguous() if isinstance(value, torch.Tensor) else value
    return own


def _add_evaluation(whole: Path, other: Path, constants: dict[str, Any]) -> None:
    import torch

    with zipfile.ZipFile(other) as archive:
        name = next(each for each in archive.namelist() if each.endswith("/models/model.json"))
        graph = archive.read(name)
    with zipfile.ZipFile(whole, "a", zipfile.ZIP_STORED) as archive:
        prefix = archive.namelist()[0].split("/")[0] + "/"
        archive.writestr(prefix + EVALUATION, graph)
        if constants:
            saved = io.BytesIO()
            torch.save(constants, saved)
            archive.writestr(prefix + EVALUATION_CONSTANTS, saved.getvalue())


def _factory(text: str) -> Callable[[], Any]:
    module, _, name = text.partition(":")
    if not module or not name:
        raise SystemExit(f"muster.export: '{text}' is not MODULE:FACTORY, as in my_nets:make_net")
    sys.path.insert(0, "")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SystemExit(f"muster.export: cannot import {module}: {error}") from None
    if not callable(getattr(found, name, None)):
        raise SystemExit(f"muster.export: {module} has no function '{name}'")
    return getattr(found, name)


def _sample(made: Any, text: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], tuple):
        return made[0], made[1], {}
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping):
        return made[0], (), dict(made[1])
    raise SystemExit(f"muster.export: {text} must return (net, inputs); inputs are a tuple, or a dict of named ones")


def _dynamic_shapes(net: Any, args: tuple[Any, ...], kwargs: dict[str, Any], texts: Sequence[str]) -> Any:
    """Of "x:0", "x:0=batch" and "x:0=2..64": what torch.export.export takes."""
    if not texts:
        return None
    import inspect

    import torch

    names = list(inspect.signature(net.forward).parameters)[: len(args)] + list(kwargs)
    shapes: dict[str, Any] = {name: None for name in names}
    dims: dict[str, Any] = {}
    for text in texts:
        place, _, value = text.partition("=")
        name, _, index = place.rpartition(":")
        if name not in shapes or not index.isdigit():
            raise SystemExit(
                f"muster.export: --dynamic {text}: must be INPUT:DIMENSION, and inputs are {', '.join(names)}"
            )
        least, _, most = value.partition("..")
        if least.isdigit() and most.isdigit():
            dim = torch.export.Dim(f"{name}_{index}", min=int(least), max=int(most))
        elif value:
            dim = dims.setdefault(value, torch.export.Dim(value))
        else:
            dim = torch.export.Dim.DYNAMIC
        shapes[name] = {**(shapes[name] or {}), int(index): dim}
    return shapes


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    usage, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m muster.export",
        description=usage,
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY", help="a function that returns (net, sample inputs)")
    parser.add_argument("-o", "--output", default="net.pt2", metavar="FILE", help="the file to write (net.pt2)")
    parser.add_argument(
        "--dynamic", action="append", default=[], metavar="INPUT:DIM", help="a dimension that varies; may be given again"
    )
    parser.add_argument("--strict", action="store_true", help="trace with TorchDynamo instead of running the net")
    given = parser.parse_args(arguments)
    net, args, kwargs = _sample(_factory(given.factory)(), given.factory)
    shapes = _dynamic_shapes(net, args, kwargs, given.dynamic)
    save(net, given.output, args, kwargs, dynamic_shapes=shapes, strict=given.strict)
    parameters = sum(each.numel() for each in net.parameters())
    print(f"{given.output}: {parameters:,} parameters, {Path(given.output).stat().st_size:,} bytes, both modes")


if __name__ == "__main__":
    main()

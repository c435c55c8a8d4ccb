"""Files with one peculiarity each, for exported_files_test.cc: exported_files.py DIRECTORY.

Each NAME.pt2 has NAME.values.pt beside it: inputs "in.0" …, and what Python returns in training mode ("training.0" …) and in
evaluation mode ("evaluation.0" …) from the seed 3.
"""
# ruff: noqa: D101, D103 (small nets that their names explain)
import json
import sys
import zipfile
from typing import Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

import muster.export

DIRECTORY = sys.argv[1]
Dim = torch.export.Dim


def path(name):
    return f"{DIRECTORY}/{name}.pt2"


def save_values(name, net, args, kwargs=None):
    values = {f"in.{i}": leaf for i, leaf in enumerate(tree_leaves((args, kwargs or {}))) if torch.is_tensor(leaf)}
    for mode in ("training", "evaluation"):
        net.train(mode == "training")
        torch.manual_seed(3)
        with torch.no_grad():
            for i, leaf in enumerate(tree_leaves(net(*args, **(kwargs or {})))):
                if leaf is not None:
                    values[f"{mode}.{i}"] = torch.as_tensor(leaf)
    torch.save(values, f"{DIRECTORY}/{name}.values.pt")


def both_modes(name, net, args, kwargs=None, **options):
    muster.export.save(net, path(name), args, kwargs, **options)
    save_values(name, net, args, kwargs)


def one_mode(name, net, args, training, decompose=False):
    program = torch.export.export(net.train(training), args)
    torch.export.save(program.run_decompositions() if decompose else program, path(name))
    save_values(name, net, args)


class Regions(nn.Module):
    """Graphs that call graphs."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            scale = self.line(x).abs().max()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.line(x)
        y = torch.cond(scale > 0.5, lambda y: y * 2, lambda y: y - 1, (y.float(),))
        count = torch.tensor(0)
        count, y = torch.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 0.5 + 1), (count, y))
        return y, scale


class Switched(nn.Module):
    """Everything that follows the mode."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.3))])
        self.rnn = nn.GRU(8, 8, num_layers=2, dropout=0.3)
        self.norm = nn.InstanceNorm1d(2, track_running_stats=True)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = self.rnn(x)[0]
        query = x.view(1, 1, -1, 8)
        x = F.scaled_dot_product_attention(query, query, query, dropout_p=0.4 if self.training else 0.0).view(2, 2, 8)
        return F.rrelu(self.norm(x), training=self.training)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x):
        return self.line(x + torch.rand_like(x))


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 4), nn.BatchNorm1d(4))


class Sizes(nn.Module):
    """Sizes that depend on each other, and numbers that are computed of them."""

    def forward(self, x, pairs):
        size = x.shape[0]
        return torch.arange(size // 2 + size % 2 + 2), pairs.view(size, 2).sum(1) / size + x[:, 0], size * 3


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((3,), 2.0), persistent=False)
        self.offset = torch.arange(3.0)
        self.line = nn.Linear(3, 3)
        self.again = self.line  # the same weights by two names

    def forward(self, first, parts, mask=None, *, kind="plain"):
        y = self.again(self.line(first)) * self.scale + self.offset
        return {"sum": y + parts["a"], "rest": (parts["b"][0] * 2, None, [y])}


class Frozen(nn.Module):
    """One normalization is in evaluation mode while the net trains."""

    def __init__(self):
        super().__init__()
        self.fixed, self.free = nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def train(self, mode=True):
        super().train(mode)
        self.fixed.eval()
        return self

    def forward(self, x):
        return self.free(self.fixed(x))


class Scripted(nn.Module):
    """Of TorchScript: a dict of a tuple, with dropout and batch normalization."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x) -> Dict[str, Tuple[torch.Tensor, torch.Tensor]]:
        for block in self.blocks:
            x = F.dropout(block(x), 0.5, self.training)
        return {"out": (self.norm(x), x)}


class Counted(nn.Module):
    """Training changes a buffer that is not saved, and evaluation reads it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(20000), persistent=False)
        self.register_buffer("few", torch.zeros(2), persistent=False)
        self.line = nn.Linear(2, 2)

    def forward(self, x):
        if self.training:
            self.seen.add_(x.sum())
            self.few.copy_(x[0])
        return self.line(x) + self.seen[:2] + self.few


class Averaged(nn.Module):
    """Changes a buffer in a graph that is called, and another by a view."""

    def __init__(self, by_view):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.by_view = by_view

    def forward(self, x):
        if self.by_view:
            self.mean[0] = x.sum()
        else:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean(0))
        return x + self.mean


class QuietNorm(nn.Module):
    """Counts in a graph that is called."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.line = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            x = self.norm(x)
        return self.line(x)


class Touching(nn.Module):
    """Changes its input by a view of it."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x):
        x.view(-1).mul_(2)
        return self.line(x)


class Aliased(nn.Module):
    """A buffer that is a parameter's memory, and a complex parameter."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.register_buffer("same", self.line.weight.detach())
        self.wave = nn.Parameter(torch.randn(4, dtype=torch.cfloat))

    def forward(self, x):
        return self.line(x) + self.same.sum() + (self.wave * x).real


class ChangesInput(nn.Module):
    def forward(self, batch):
        batch["x"].mul_(2)
        return batch["x"] + 1


def changed(name, source, change):
    """The file with another model.json."""
    with zipfile.ZipFile(path(source)) as old, zipfile.ZipFile(path(name), "w") as new:
        for record in old.namelist():
            data = old.read(record)
            if record.endswith("models/model.json"):
                program = json.loads(data)
                change(program)
                data = json.dumps(program).encode()
            new.writestr(record, data)


def first_node(program):
    return program["graph_module"]["graph"]["nodes"][0]


def set_target(target):
    return lambda program: first_node(program).update(target=target)


def set_version(**version):
    return lambda program: program["schema_version"].update(**version)


def name_argument(program):
    inputs = first_node(program)["inputs"]
    inputs.append({**inputs[0], "name": "from_the_future"})


def add_custom_object(program):
    first_node(program)["inputs"][0]["arg"] = {"as_custom_obj": {"name": "x", "class_fqn": "__torch__.Thing"}}


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    both_modes("regions", Regions(), (torch.randn(2, 4),))
    both_modes("both", Switched(), (torch.randn(4, 8),))
    both_modes("counted", Counted(), (torch.randn(4, 2),))
    one_mode("averaged", Averaged(False), (torch.randn(2, 4),), True)
    one_mode("averaged_by_view", Averaged(True), (torch.randn(2, 4),), True)
    one_mode("quiet", QuietNorm(), (torch.randn(4, 4),), True)
    one_mode("touching", nn.Sequential(nn.Linear(4, 4), nn.Sequential(Touching(), Touching())), (torch.randn(2, 4),), True)
    one_mode("aliased", Aliased(), (torch.randn(2, 4),), True)
    program = torch.export.export(ChangesInput(), ({"x": torch.ones(2)},)).run_decompositions()
    torch.export.save(program, path("changes_input"))
    one_mode("trained", Switched(), (torch.randn(4, 8),), True)
    one_mode("evaluated", Switched(), (torch.randn(4, 8),), False)
    one_mode("noisy", Noisy(), (torch.randn(4, 4),), True)
    one_mode("decomposed", Normed(), (torch.randn(4, 4),), True, decompose=True)
    one_mode("decomposed_evaluated", Normed(), (torch.randn(4, 4),), False, decompose=True)
    one_mode("frozen", Frozen(), (torch.randn(4, 4),), True)
    size = Dim("size", min=2, max=8)
    both_modes(
        "sizes", Sizes(), (torch.randn(4, 3), torch.randn(8)), dynamic_shapes={"x": {0: size}, "pairs": {0: 2 * size}}
    )
    parts = {"b": [torch.ones(2)], "a": torch.zeros(3)}
    both_modes("nested", Nested(), (torch.randn(2, 3), parts), {"mask": None, "kind": "plain"})
    one_mode("plain", nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), (torch.randn(2, 4),), True)
    changed("file_writer", "plain", set_target("torch.ops.aten.from_file.default"))
    changed("inner", "plain", set_target("torch.ops.aten._coalesced_.default"))
    changed("unknown", "plain", set_target("torch.ops.aten.not_yet_invented.default"))
    changed("foreign", "plain", set_target("torch.ops.transformers.grouped_mm_fallback.default"))
    changed("function", "plain", set_target("os.system"))
    changed("region", "plain", set_target("torch.ops.higher_order.flex_attention"))
    changed("argument", "plain", name_argument)
    changed("object", "plain", add_custom_object)
    changed("major", "plain", set_version(major=9))
    changed("minor", "plain", set_version(minor=99))
    torch.save({"w": torch.ones(2)}, path("saved"))
    script = torch.jit.script(Scripted())
    script.save(path("script"))
    save_values("script", script, (torch.randn(2, 4),))


if __name__ == "__main__":
    main()

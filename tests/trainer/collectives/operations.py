"""Accelerate's results for the calls of operations_ranks.cc, printed in the same format."""

import torch
from accelerate import PartialState
from accelerate.utils import operations as ops

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def show(name, value):
    if isinstance(value, torch.Tensor):
        values = "".join(f" {number:.9g}" for number in value.to(torch.float64).flatten().tolist())
        print(f"{name} {str(value.dtype)[6:]} {list(value.shape)}{values}")
    else:
        print("|".join([name, *value]))


def numbers(shape, start, dtype=torch.float32):
    flat = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (flat * 0.25 + start).to(dtype).reshape(shape)


def letters(count):
    return [chr(ord("a") + i) for i in range(count)]


def gather_and_reduce(state):
    rank = state.process_index
    metrics = {
        "a": [numbers((2, 3), rank), numbers((), rank)],
        "b": [numbers((3,), rank, torch.int64), numbers((0, 4), rank)],
    }
    for key, tensors in ops.gather(metrics).items():
        for tensor in tensors:
            show("gather " + key, tensor)
    show("gather bool", ops.gather(numbers((3,), rank) > 0.3))
    show("gather bfloat16", ops.gather(numbers((3,), rank, torch.bfloat16)))
    show("gather_object", ops.gather_object([f"rank{rank}", "x y"]))
    for dtype in DTYPES:
        value = numbers((5,), rank * 3.3, dtype)
        show("reduce mean", ops.reduce(value, "mean"))
        show("reduce sum", ops.reduce(value, "sum"))
        show("reduce max", ops.reduce(value, "max"))
        # Accelerate applies its scale on XLA only.
        show("reduce scaled", ops.reduce(value, "sum") * 0.5)
    show("reduce long", ops.reduce(numbers((5,), 4 - rank, torch.int64), "sum"))
    show("reduce 0-d", ops.reduce(numbers((), rank), "mean"))


def pad_and_broadcast(state):
    own = state.process_index + 1

    def pad(name, tensor, dim, index, first):
        padded = ops.pad_across_processes(tensor, dim=dim, pad_index=index, pad_first=first)
        show("pad " + name, padded)
        return padded

    show("pad gathered", ops.gather(pad("rows", numbers((own, 2), own), 0, 0, False)))
    pad("rows first", numbers((own, 2), own), 0, 9, True)
    pad("columns", numbers((2, own), own), 1, -1, False)
    pad("last, first", numbers((2, own), own, torch.int64), -1, -100, True)
    pad("scalar", numbers((), own), 0, 0, False)
    pad("no such dimension", numbers((own,), own), 3, 0, False)
    for source in (0, 1):
        values = [numbers((2, 2), own), numbers((), own, torch.int64)]
        show("broadcast", ops.broadcast(values, from_process=source)[0])
        objects = [f"of {state.process_index}", "b"]
        show("broadcast_object_list", ops.broadcast_object_list(objects, from_process=source))


def split(state):
    for padding in (False, True):
        for length in (1, 2, 3, 5, 8):

            def part(value):
                with state.split_between_processes(value, apply_padding=padding) as own:
                    return own

            show("split list", part(letters(length)))
            show("split tensor", part(numbers((length,), 1)))
            show("split rows", part(numbers((length, 2), 1, torch.int64)))
            show("split dict", part({"x": letters(length)})["x"])
            tensors = part({"y": numbers((length, 1), 2), "z": numbers((length,), 3)})
            show("split dict of tensors", tensors["y"])
            show("split dict of tensors", tensors["z"])


def alone():
    show("concatenate", ops.concatenate([numbers((2, 2), 0), numbers((1, 2), 5)]))
    show("concatenate dim 1", ops.concatenate([numbers((2, 2), 0), numbers((2, 1), 5)], dim=1))
    joined = ops.concatenate(
        [
            (numbers((1,), 0), {"k": numbers((2,), 1)}),
            (numbers((2,), 2), {"k": numbers((1,), 3)}),
        ]
    )
    show("concatenate nested", joined[0])
    show("concatenate nested", joined[1]["k"])
    show("find_batch_size", torch.tensor(ops.find_batch_size(joined)))
    show("slice_tensors", ops.slice_tensors(joined, slice(1, 5))[1]["k"])
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64):
        show("convert_to_fp32", ops.convert_to_fp32(numbers((3,), 0, dtype)))
    for batch in range(1, 10):
        for ranks in range(1, 5):
            show("pad_input_tensors", ops.pad_input_tensors(numbers((batch, 2), 1), batch, ranks))


if __name__ == "__main__":
    torch.set_num_threads(1)
    partial_state = PartialState(cpu=True)
    gather_and_reduce(partial_state)
    pad_and_broadcast(partial_state)
    split(partial_state)
    alone()
    partial_state.wait_for_everyone()
    partial_state.destroy_process_group()

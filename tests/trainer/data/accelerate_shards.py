"""Compares the index lists of our loaders with those of Accelerate's own shards and sampler.

    accelerate_shards.py CASES.json

Each case holds the parameters of an epoch and the batches that each of our ranks got; each order a
seed, an epoch and our permutation."""
import json
import sys

from accelerate.data_loader import BatchSamplerShard, IterableDatasetShard, SeedableRandomSampler
from torch.utils.data import BatchSampler, IterableDataset


class Stream(IterableDataset):
    def __init__(self, order):
        self.order = order

    def __iter__(self):
        return iter(self.order)


def expected(case, rank):
    order, batch, world = case["order"], case["batch_size"], case["world_size"]
    if case["stream"]:
        per_rank = batch // world if case["split_batches"] else batch
        if world == 1:
            samples = list(order)
        else:
            samples = list(IterableDatasetShard(Stream(order), batch, case["drop_last"], world, rank,
                                                case["split_batches"]))
        return list(BatchSampler(samples, per_rank, case["drop_last"]))
    batches = BatchSampler(order, batch, case["drop_last"])
    if world == 1:  # Accelerate does not shard in this case
        return list(batches)
    return list(BatchSamplerShard(batches, world, rank, case["split_batches"], case["even_batches"]))


def main():
    given = json.load(open(sys.argv[1]))
    cases, orders = given["cases"], given["orders"]
    wrong = 0
    for one in orders:
        sampler = SeedableRandomSampler(range(len(one["order"])), data_seed=one["seed"])
        sampler.set_epoch(one["epoch"])
        if list(sampler) != one["order"]:
            wrong += 1
            print("another permutation of", len(one["order"]), "in epoch", one["epoch"])
    for case in cases:
        for rank, got in enumerate(case["ranks"]):
            wanted = expected(case, rank)
            if got != wanted:
                wrong += 1
                if wrong <= 5:
                    print({**case, "ranks": None}, "rank", rank, "got", got, "expected", wanted)
    print(f"{len(cases)} cases, {len(orders)} orders: {wrong} lists differ")
    sys.exit(1 if wrong or not cases or not orders else 0)


main()

"""Models whose work depends on the data: a graph net, experts, sparse embeddings, bags, tied layers (structures.cc)."""
import torch
from kind import fused_adamw, perceptron
from torch import nn
from torch.nn import functional as F


class GraphNet(nn.Module):
    """Two rounds of messages along the edges, then the mean of the nodes."""

    def __init__(self):
        super().__init__()
        self.messages = nn.ModuleList([nn.Linear(16, 8), nn.Linear(16, 8)])
        self.output = nn.Linear(8, 3)

    def forward(self, nodes, edges):
        for message in self.messages:
            ends = torch.cat([nodes[edges[0]], nodes[edges[1]]], 1)
            nodes = nodes + torch.zeros_like(nodes).index_add(0, edges[1], torch.relu(message(ends)))
        return self.output(nodes.mean(0, keepdim=True))


def graph_net(kind):
    net = kind.start(GraphNet())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        count = 6 + draws.integers(6, 1).item()
        nodes, edges = draws.normal(count, 8), draws.integers(count, 2, 3 * count)
        kind.step(F.cross_entropy(model(nodes, edges), draws.integers(3, 1)), optimizer, clip_norm=1.0)
    kind.end(net)


class Experts(nn.Module):
    """Each row goes to two of four experts; an expert may get none."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.experts = nn.ModuleList([perceptron(8, 12, 8) for _ in range(4)])
        self.output = nn.Linear(8, 5)

    def forward(self, x):
        scores = self.router(x).softmax(1)
        weights, chosen = scores.topk(2, 1)
        mixed = torch.zeros_like(x)
        for place, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == place)
            mixed = mixed.index_add(0, rows, expert(x[rows]) * weights[rows, slots].unsqueeze(1))
        return self.output(x + mixed), scores.mean(0).square().sum()


def experts(kind):
    net = kind.start(Experts())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        logits, balance = model(draws.normal(6, 8))
        kind.step(F.cross_entropy(logits, draws.integers(5, 6)) + 0.1 * balance, optimizer)
    kind.end(net)


class SparseWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8, sparse=True)
        self.output = nn.Linear(8, 4)

    def forward(self, words):
        return self.output(self.words(words).mean(1))


def sparse_embedding(kind):
    net = kind.start(SparseWords())
    model, optimizer = kind.accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.5))
    for step in range(20):
        draws = kind.draws(step)
        kind.step(F.cross_entropy(model(draws.integers(50, 4, 6)), draws.integers(4, 4)), optimizer)
    kind.end(net)


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.EmbeddingBag(50, 8, mode="mean")
        self.output = nn.Linear(8, 4)

    def forward(self, words, offsets):
        return self.output(self.bags(words, offsets))


def embedding_bags(kind):
    net = kind.start(Bags())
    model, optimizer = kind.accelerator.prepare(net, torch.optim.Adagrad(net.parameters(), lr=0.1, fused=True))
    for step in range(20):
        draws = kind.draws(step)
        words, offsets = draws.integers(50, 20), torch.tensor([0, 3, 3, 11])  # the second bag is empty
        kind.step(F.cross_entropy(model(words, offsets), draws.integers(4, 4)), optimizer)
    kind.end(net)


class TiedLayers(nn.Module):
    """One weight under two names, each with its own bias."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.second = nn.Linear(10, 10)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def tied_layers(kind):
    net = kind.start(TiedLayers())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        kind.step(F.cross_entropy(model(draws.normal(6, 10)), draws.integers(10, 6)), optimizer)
    kind.end(net)


KINDS = {"graph_net": graph_net, "experts": experts, "sparse_embedding": sparse_embedding,
         "embedding_bags": embedding_bags, "tied_layers": tied_layers}

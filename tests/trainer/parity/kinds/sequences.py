"""Sequences: a state-space scan, a state that is carried on, packed and padded sequences, alignment (sequences.cc)."""
import torch
from kind import fused_adamw
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence


class Scan(nn.Module):
    """A diagonal state-space layer: state = decay * state + inputs, one step of time after the other."""

    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.empty(12))
        self.inputs = nn.Linear(8, 12, bias=False)
        self.output = nn.Linear(12, 5)

    def forward(self, x):
        decay = torch.sigmoid(self.decay)
        state = torch.zeros(x.shape[0], 12)
        outputs = []
        for time in range(x.shape[1]):
            state = decay * state + self.inputs(x[:, time])
            outputs.append(torch.tanh(self.output(state)))
        return torch.stack(outputs, 1).mean(1)


def state_space_scan(kind):
    net = kind.start(Scan())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        logits = model(draws.normal(4, 10, 8))
        kind.step(F.cross_entropy(logits, draws.integers(5, 4)), optimizer, clip_norm=0.5)
    kind.end(net)


class Carried(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 10, num_layers=2, batch_first=True)
        self.output = nn.Linear(10, 6)

    def forward(self, x, state):
        outputs, state = self.lstm(x, state)
        return self.output(outputs[:, -1]), state


def carried_lstm_state(kind):
    net = kind.start(Carried())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    state = (torch.zeros(2, 4, 10), torch.zeros(2, 4, 10))
    for step in range(20):
        draws = kind.draws(step)
        logits, state = model(draws.normal(4, 5, 6), state)
        state = (state[0].detach(), state[1].detach())
        kind.step(F.cross_entropy(logits, draws.integers(6, 4)), optimizer, clip_norm=1.0)
    kind.note(state[0].sum(), state[1].sum())
    kind.end(net)


class PackedRows(nn.Module):
    """Documents one after another in a row: attention stays within a document, and positions restart at each."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(20, 16)
        self.position = nn.Embedding(16, 16)
        self.qkv = nn.Linear(16, 48)
        self.head = nn.Linear(16, 20)

    def forward(self, tokens, positions, documents):
        x = self.token(tokens) + self.position(positions)
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        same = documents.unsqueeze(2) == documents.unsqueeze(1)
        mask = (same & torch.ones(16, 16, dtype=torch.bool).tril()).unsqueeze(1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.head(x + y.transpose(1, 2).reshape(x.shape))


def packed_attention(kind):
    net = kind.start(PackedRows())
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        tokens, cut = draws.integers(20, 3, 17), 4 + draws.integers(8, 3, 1)
        places = torch.arange(16).expand(3, 16)
        documents = (places >= cut).long()
        following = tokens[:, 1:].masked_fill(places == cut - 1, -100)
        logits = model(tokens[:, :16], places - documents * cut, documents)
        # The mean over the tokens of all ranks, which have different numbers of them.
        count = kind.accelerator.reduce((following != -100).sum(), "sum")
        loss = F.cross_entropy(logits.view(-1, 20), following.reshape(-1), reduction="sum")
        kind.step(loss * kind.accelerator.num_processes / count, optimizer)
    kind.end(net)


class PackedGru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(6, 10, batch_first=True)
        self.output = nn.Linear(10, 4)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.output(self.gru(packed)[1][0])


def packed_gru(kind):
    net = kind.start(PackedGru())
    model, optimizer = kind.accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, fused=True))
    for step in range(20):
        draws = kind.draws(step)
        logits = model(draws.normal(5, 7, 6), 1 + draws.integers(7, 5))
        kind.step(F.cross_entropy(logits, draws.integers(4, 5)), optimizer)
    kind.end(net)


def ctc_alignment(kind):
    net = kind.start(nn.Sequential(nn.Conv1d(6, 12, 3, padding=1), nn.ReLU(), nn.Conv1d(12, 7, 1)))
    model, optimizer = kind.accelerator.prepare(net, fused_adamw(net))
    for step in range(20):
        draws = kind.draws(step)
        scores = model(draws.normal(3, 6, 12)).permute(2, 0, 1).log_softmax(2)
        targets, lengths = 1 + draws.integers(6, 3, 4), 1 + draws.integers(4, 3)
        kind.step(F.ctc_loss(scores, targets, torch.full((3,), 12), lengths), optimizer)
    kind.end(net)


KINDS = {"state_space_scan": state_space_scan, "carried_lstm_state": carried_lstm_state,
         "packed_attention": packed_attention, "packed_gru": packed_gru, "ctc_alignment": ctc_alignment}

"""A small Llama in plain torch: what a team has in Python already.

python -m muster.export llama:make_net -o llama.pt2    exports it for train.cc
python llama.py trained.pt                             evaluates what train.cc wrote
"""

import gzip
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, LAYERS, HEADS, CONTEXT = 128, 64, 4, 4, 64
EVALUATED = 64  # windows from the end of the text
TEXT = Path(__file__).resolve().parent.parent / "data" / "kjv-genesis-psalms.txt.gz"


class RMSNorm(nn.Module):
    """Divides by the root of the mean square."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    """Causal attention with rotary positions."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        half = WIDTH // HEADS // 2
        angles = torch.outer(torch.arange(CONTEXT), 10_000 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1)

    def forward(self, x):
        samples = x.shape[0]
        q, k, v = self.qkv(x).view(samples, CONTEXT, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(samples, CONTEXT, WIDTH))


class Block(nn.Module):
    """Attention, then a gated MLP."""

    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(), Attention()
        self.mlp_norm = RMSNorm()
        self.gate = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """Predicts each next character; the output layer is the embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.head.weight = self.embed.weight

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return {"loss": F.cross_entropy(logits.flatten(0, 1), targets.flatten()), "logits": logits}


def make_net():
    """The net and sample inputs, for muster.export."""
    torch.manual_seed(1)
    tokens = torch.zeros(8, CONTEXT, dtype=torch.long)
    return Llama(), {"tokens": tokens, "targets": tokens}


def main():
    net = Llama()
    net.load_state_dict(torch.load(sys.argv[1], weights_only=True))
    text = torch.tensor(list(gzip.open(TEXT).read()))[-EVALUATED * CONTEXT - 1 :]
    tokens, targets = text[:-1].view(-1, CONTEXT), text[1:].view(-1, CONTEXT)
    with torch.no_grad():
        print(f"loss {net.eval()(tokens, targets)['loss'].item():.6f} in Python")


if __name__ == "__main__":
    main()

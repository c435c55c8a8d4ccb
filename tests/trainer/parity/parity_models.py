"""The models of models.h in Python: the same layers under the same names, and the data that both sides read."""
import gzip
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "data" / "optdigits.csv.gz"
CONTEXT = 32
VOCABULARY = 64


class Digits(nn.Module):
    """Two convolutions, pooling, two linear layers; 0.4 dropout twice, or none."""

    def __init__(self, dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.hidden = nn.Linear(64 * 4 * 4, 128)
        self.output = nn.Linear(128, 10)
        self.dropout = nn.Dropout(dropout)

    def forward(self, images):
        x = torch.relu(self.conv1(images))
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = self.dropout(torch.relu(self.hidden(self.dropout(x.flatten(1)))))
        return self.output(x)


class Norm(nn.Module):
    """Batch normalization (buffers), and a layer whose result is used only on request."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.side = nn.Linear(16, 10)
        self.output = nn.Linear(16 * 8 * 8, 10)

    def forward(self, images, with_side=True):
        x = torch.relu(self.norm(self.conv(images)))
        logits = self.output(x.flatten(1))
        return logits + self.side(x.mean((2, 3))) if with_side else logits


class SmallLayers(nn.Module):
    """Many layers of a few hundred weights each."""

    def __init__(self, width=16):
        super().__init__()
        self.input = nn.Linear(64, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(300)])
        self.output = nn.Linear(width, 10)

    def forward(self, images):
        x = self.input(images.flatten(1))
        for layer in self.layers:
            x = x + 0.1 * torch.tanh(layer(x))
        return self.output(x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Characters, pre-norm blocks, logits of the next character; tied: the head's weight is the embedding's."""

    def __init__(self, width=64, heads=4, layers=2, tied=False):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.token.weight

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Gru(nn.Module):
    """The rows of an image in sequence through two recurrent layers."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 32, num_layers=2, batch_first=True)
        self.output = nn.Linear(32, 10)

    def forward(self, images):
        return self.output(self.gru(images.squeeze(1))[0][:, -1])


class Gan(nn.Module):
    """Two models that are prepared separately: images of noise, and how real an image looks (see gan_losses)."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
        self.discriminator = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def real_loss(logits, is_real):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, 1.0 if is_real else 0.0))


MODELS = {"digits": lambda: Digits(0.4), "digits_plain": lambda: Digits(0.0), "norm": Norm, "norm_side": Norm,
          "small_layers": SmallLayers, "gru": Gru, "gan": Gan, "transformer_tied": lambda: Transformer(tied=True),
          "transformer": Transformer, "transformer_wide": lambda: Transformer(width=192, heads=6, layers=4),
          "transformer_deep": lambda: Transformer(width=32, heads=4, layers=24)}


def make_model(name):
    return MODELS[name]()


def loss_of(model, name, batch, micro_batch):
    """`batch` is a pair of tensors; micro_batch counts from 0 (the norm model leaves a layer out in turns)."""
    inputs, labels = batch
    if name == "norm_side":
        return F.cross_entropy(model(inputs, micro_batch % 3 != 1), labels)
    logits = model(inputs)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))


def digit_tensors():
    with gzip.open(DIGITS, "rt") as lines:
        table = torch.tensor([[int(value) for value in line.split(",")] for line in lines])
    table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(1))]
    return table[:, :64].float().div(16).view(-1, 1, 8, 8).contiguous(), table[:, 64].contiguous()


def character_tensors():
    """The lines of the digits' table as characters: sequences [rows, CONTEXT] and the next characters."""
    with gzip.open(DIGITS, "rt") as lines:
        text = lines.read()[:150_000].encode()
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long() % VOCABULARY
    rows = (len(tokens) - 1) // CONTEXT
    inputs = tokens[:rows * CONTEXT].view(rows, CONTEXT)
    return inputs.clone(), tokens[1:rows * CONTEXT + 1].view(rows, CONTEXT).clone()


def write_inputs(directory):
    """What both sides start from: data and initial weights, as safetensors."""
    images, labels = digit_tensors()
    characters, following = character_tensors()
    save_file({"digits.inputs": images, "digits.labels": labels, "characters.inputs": characters,
               "characters.labels": following}, f"{directory}/data.safetensors")
    for name in MODELS:
        torch.manual_seed(11)
        # Copies, because safetensors rejects tensors that share memory (tied weights).
        weights = {key: value.clone() for key, value in make_model(name).state_dict().items()}
        save_file(weights, f"{directory}/{name}.safetensors")

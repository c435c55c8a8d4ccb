"""Exports small nets and trains them in Python: what exported_ranks.cc compares C++ with.

exported_nets.py DIRECTORY NAME…: writes of each net NAME.pt2, NAME.inputs.pt (inputs of rank 0, then of rank 1) and
NAME.expected.pt: the losses and gradients of one rank, its evaluation, and the losses of two ranks under DDP.
"""
# ruff: noqa: D101, D103 (small nets that their names explain)
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

STEPS = 20
DDP_STEPS = 5
SEED = 11  # of rank 0; other ranks add their number


class Loss(nn.Module):
    """The loss and the output of a classifier."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, target):
        out = self.net(x)
        return {"loss": F.cross_entropy(out, target), "output": out}


class Last(nn.Module):
    def forward(self, x):
        return x[:, -1]


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.rnn = kind(8, 16, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0][:, -1])


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([DoubleConv(3, 8), DoubleConv(8, 16)])
        self.middle = DoubleConv(16, 16)
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(16, 16, 2, stride=2), nn.ConvTranspose2d(8, 8, 2, stride=2)]
        )
        self.out = nn.ModuleList([DoubleConv(32, 8), DoubleConv(16, 8)])
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, out in zip(self.up, self.out):
            x = out(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


class Experts(nn.Module):
    """A mixture of four experts of which each sample uses two, without operators of its own."""

    def __init__(self, width=16, count=4):
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.gate = nn.Linear(width, count)
        self.up = nn.Parameter(torch.randn(count, width, 32) * 0.1)
        self.down = nn.Parameter(torch.randn(count, 32, width) * 0.1)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = self.embed(x)
        weight, index = torch.softmax(self.gate(x), -1).topk(2)
        weight = torch.zeros(x.size(0), 4, dtype=x.dtype).scatter(1, index, weight / weight.sum(-1, keepdim=True))
        hidden = torch.einsum("bd,ndh->bnh", x, self.up).relu()
        return self.head(x + torch.einsum("bnh,nhd,bn->bd", hidden, self.down, weight))


def mlp(batch=8):
    net = nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)
    )
    return Loss(net), (torch.randn(batch, 16), torch.randint(4, (batch,)))


def cnn(batch=8):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3),
        nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    return Loss(net), (torch.randn(batch, 3, 12, 12), torch.randint(4, (batch,)))


def lstm(batch=8):
    return Loss(Recurrent(nn.LSTM)), (torch.randint(20, (batch, 6)), torch.randint(4, (batch,)))


def gru(batch=8):
    return Loss(Recurrent(nn.GRU)), (torch.randint(20, (batch, 6)), torch.randint(4, (batch,)))


def unet():
    return Loss(UNet()), (torch.randn(2, 3, 16, 16), torch.randint(4, (2, 16, 16)))


def experts(batch=8):
    return Loss(Experts()), (torch.randn(batch, 8), torch.randint(4, (batch,)))


def tokens(length=16):
    return torch.randint(64, (2, length))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, use_cache=False, bos_token_id=0, eos_token_id=0
    )
    ids = tokens()
    return GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def llama():
    """With "eager" attention: with "sdpa", transformers calls another operator while it is traced than else."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    ids = tokens()
    return LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}


def bert():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=32,
    )  # fmt: skip
    ids = tokens()
    return BertForMaskedLM(config), {"input_ids": ids, "labels": ids}


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4,
        num_labels=4, hidden_dropout_prob=0.1,
    )  # fmt: skip
    return ViTForImageClassification(config), {
        "pixel_values": torch.randn(4, 3, 16, 16),
        "labels": torch.randint(4, (4,)),
    }


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=4)
    return ResNetForImageClassification(config), {
        "pixel_values": torch.randn(4, 3, 32, 32),
        "labels": torch.randint(4, (4,)),
    }


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, use_cache=False,
        decoder_start_token_id=0,
    )  # fmt: skip
    return T5ForConditionalGeneration(config), {"input_ids": tokens(), "labels": tokens(8)}


def gpt2_large():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=8192, n_positions=128, n_embd=384, n_layer=6, n_head=6, use_cache=False, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    ids = torch.randint(8192, (2, 128))
    return GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def resnet_large():
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=32, hidden_sizes=[32, 64, 128, 256], depths=[2, 2, 2, 2], layer_type="basic", num_labels=10)
    return ResNetForImageClassification(config), {
        "pixel_values": torch.randn(8, 3, 64, 64),
        "labels": torch.randint(10, (8,)),
    }


NETS = [mlp, cnn, lstm, gru, unet, experts, gpt2, llama, bert, vit, resnet, t5, gpt2_large, resnet_large]
BY_BATCH = {"mlp", "cnn", "experts"}  # exported for any batch size


def optimizer_of(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-2, fused=True)


def without_aliases(inputs):
    """Other labels than inputs, which a graph that reads one input for both would not see."""
    if isinstance(inputs, dict) and inputs.get("labels") is inputs.get("input_ids", inputs):
        return {**inputs, "labels": inputs["labels"].flip(-1)}
    return inputs


def call(net, inputs):
    return net(**inputs) if isinstance(inputs, dict) else net(*inputs)


def one_rank(net, inputs, second):
    """Of STEPS steps: losses, the first gradients, the last state; then both evaluations."""
    torch.manual_seed(SEED)
    optimizer = optimizer_of(net)
    losses, expected = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = call(net, inputs)["loss"]
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            expected = {
                "gradient." + name: each.grad.clone() for name, each in net.named_parameters() if each.grad is not None
            }
        optimizer.step()
    expected["losses"] = torch.stack(losses)
    net.eval()
    with torch.no_grad():
        expected["evaluation"] = call(net, inputs)["loss"]
        if second is not None:
            expected["second"] = call(net, second)["loss"]
    return expected | {"state." + name: value for name, value in net.state_dict().items()}


def two_ranks(net, inputs):
    """The losses of both ranks under DDP: gradients are averaged, and buffers are rank 0's. (`./dev bench exported` runs DDP.)"""
    nets = [net, copy.deepcopy(net)]
    optimizers = [optimizer_of(each) for each in nets]
    generators = []
    for rank in range(2):
        torch.manual_seed(SEED + rank)
        generators.append(torch.get_rng_state())
    losses = [[], []]
    for _ in range(DDP_STEPS):
        for own, other in zip(nets[1].buffers(), nets[0].buffers()):
            own.copy_(other)
        for rank in range(2):
            torch.set_rng_state(generators[rank])
            optimizers[rank].zero_grad()
            loss = call(nets[rank], inputs[rank])["loss"]
            loss.backward()
            losses[rank].append(loss.detach())
            generators[rank] = torch.get_rng_state()
        for first, second in zip(nets[0].parameters(), nets[1].parameters()):
            if first.grad is not None:
                first.grad = first.grad / 2 + second.grad / 2
                second.grad = first.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    return torch.stack([torch.stack(each) for each in losses])


def save(make, directory):
    import muster.export

    name = make.__name__
    torch.manual_seed(7)
    net, sample = make()  # whose labels may be its inputs
    inputs, other = without_aliases(sample), without_aliases(make()[1])
    args, kwargs = ((), sample) if isinstance(sample, dict) else (sample, {})
    shapes, second = None, None
    if name in BY_BATCH:
        batch = torch.export.Dim("batch", min=2, max=64)
        shapes = {"x": {0: batch}, "target": {0: batch}}
        second = make(batch=5)[1]
    muster.export.save(net, f"{directory}/{name}.pt2", args, kwargs, dynamic_shapes=shapes)
    samples = {"rank0": inputs, "rank1": other} | ({"second": second} if second else {})
    torch.save(
        {f"{key}.{i}": leaf for key, sample in samples.items() for i, leaf in enumerate(tree_leaves(sample))},
        f"{directory}/{name}.inputs.pt",
    )
    expected = {"ddp": two_ranks(copy.deepcopy(net), [inputs, other])}
    torch.save(expected | one_rank(net, inputs, second), f"{directory}/{name}.expected.pt")


def main():
    torch.set_num_threads(1)
    for make in NETS:
        if make.__name__ in sys.argv[2:]:
            save(make, sys.argv[1])
            print(make.__name__, flush=True)


if __name__ == "__main__":
    main()

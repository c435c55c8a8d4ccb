"""The Python side of the parity tests, on Hugging Face Accelerate: parity_twin.py CASES INPUTS OUTPUTS CASE…

Trains every named case of CASES (cases.json) and records each micro-batch in
OUTPUTS/CASE.python.RANK.json: floating point numbers as hexadecimal text, so that no bit is lost.
parity_ranks.cc is the same program on Muster. `parity_twin.py --inputs DIR` only writes data and weights.
"""
import json
import math
import os
import sys
import time

import torch
from accelerate import Accelerator, DataLoaderConfiguration, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DDPCommunicationHookType, GradientAccumulationPlugin, set_seed
from safetensors.torch import load_file
from torch.optim import lr_scheduler

import parity_models


def make_optimizer(parameters, options):
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD,
             "adagrad": torch.optim.Adagrad}
    options = dict(options)
    kind = kinds[options.pop("name")]
    implementation = options.pop("implementation", "fused")
    chosen = {"fused": implementation == "fused", "foreach": implementation == "foreach"}
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    return kind(parameters, **options, **chosen)


def make_scheduler(optimizer, options):
    options = dict(options)
    name, warmup = options.pop("name"), options.pop("warmup_steps", 0)
    if name in ("constant", "linear", "cosine", "cosine_restarts"):
        factor = SCHEDULE_FACTORS[name]
        return lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, warmup, **options))
    kinds = {"one_cycle": lr_scheduler.OneCycleLR, "step": lr_scheduler.StepLR,
             "plateau": lr_scheduler.ReduceLROnPlateau}
    return kinds[name](optimizer, **options)


def warm(step, warmup):
    return step / max(1, warmup)


def linear(step, warmup, total_steps):
    if step < warmup:
        return warm(step, warmup)
    return max(0.0, (total_steps - step) / max(1, total_steps - warmup))


def cosine(step, warmup, total_steps, cycles=0.5):
    if step < warmup:
        return warm(step, warmup)
    progress = (step - warmup) / max(1, total_steps - warmup)
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * cycles * 2.0 * progress)))


def cosine_restarts(step, warmup, total_steps, cycles=1):
    if step < warmup:
        return warm(step, warmup)
    progress = (step - warmup) / max(1, total_steps - warmup)
    if progress >= 1.0:
        return 0.0
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((cycles * progress) % 1.0))))


# The formulas of transformers.optimization, which Accelerate's users use.
SCHEDULE_FACTORS = {"constant": lambda step, warmup: warm(step, warmup) if step < warmup else 1.0,
                    "linear": linear, "cosine": cosine, "cosine_restarts": cosine_restarts}


def make_ddp_options(options):
    hooks = {"fp16": DDPCommunicationHookType.FP16, "bf16": DDPCommunicationHookType.BF16}
    hook = hooks.get(options.get("comm_hook"), DDPCommunicationHookType.NO)
    return DistributedDataParallelKwargs(**{**options, "comm_hook": hook})


def make_accelerator(case):
    AcceleratorState._reset_state()
    GradientState._reset_state()
    precision = case.get("precision", "fp32")
    accelerator = Accelerator(
        cpu=True, mixed_precision="no" if precision == "fp32" else precision,
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=case.get("accumulation", 1), sync_each_batch=case.get("sync_each_batch", False)),
        dataloader_config=DataLoaderConfiguration(even_batches=case.get("even_batches", True),
                                                  split_batches=case.get("split_batches", False)),
        step_scheduler_with_optimizer=case.get("step_scheduler_with_optimizer", True),
        kwargs_handlers=[make_ddp_options(case.get("ddp", {}))])
    # Accelerate creates a scaler, and its fp16 autocast, on accelerators only; torch has
    # both on the CPU.
    if precision == "fp16":
        accelerator.native_amp = True
    if "scaler" in case:
        accelerator.scaler = torch.amp.GradScaler("cpu", **case["scaler"])
    return accelerator


class Run:
    def __init__(self, case, inputs, data):
        self.case = case
        self.accelerator = make_accelerator(case)
        net = parity_models.make_model(case["model"])
        net.load_state_dict(load_file(f"{inputs}/{case['model']}.safetensors"))
        kind = "characters" if case["model"].startswith("transformer") else "digits"
        samples = case.get("samples", 1000)
        dataset = torch.utils.data.TensorDataset(data[f"{kind}.inputs"][:samples], data[f"{kind}.labels"][:samples])
        # Without its own generator, the loader would draw from the one that dropout uses.
        loader = torch.utils.data.DataLoader(dataset, batch_size=case["batch"], generator=torch.Generator(),
                                             drop_last=case.get("drop_last", False))
        self.loader = self.accelerator.prepare(loader)
        self.scheduler = None
        self.prepare(net)
        self.seen = {name: [] for name in ("loss", "lr", "norm", "scale", "skipped", "samples", "synced")}
        self.done = 0

    def prepare(self, net):
        case = self.case
        optimizer = make_optimizer(net.parameters(), case["optimizer"])
        scheduler = make_scheduler(optimizer, case["schedule"]) if "schedule" in case else None
        self.model, self.optimizer = self.accelerator.prepare(net, optimizer)
        if scheduler:
            self.scheduler = self.accelerator.prepare(scheduler)

    def train(self):
        set_seed(self.case.get("seed", 5), device_specific=True)
        while self.done < self.case["steps"]:
            for batch in self.loader:
                if self.done == self.case["steps"]:
                    break
                self.micro_batch(batch)
        return self.seen

    def micro_batch(self, batch):
        case, accelerator, seen = self.case, self.accelerator, self.seen
        with accelerator.accumulate(self.model):
            loss = parity_models.loss_of(self.model, case["model"], batch, self.done)
            seen["loss"].append(loss.item().hex())
            seen["samples"].append(len(batch[0]))
            # An overflow on one rank must count on every rank.
            if self.done in case.get("overflow_at", []) and accelerator.is_last_process:
                loss = loss * math.inf
            accelerator.backward(loss)
            if accelerator.sync_gradients and "clip_norm" in case:
                norm = accelerator.clip_grad_norm_(self.model.parameters(), case["clip_norm"])
                seen["norm"].append(norm.item().hex())
            if accelerator.sync_gradients and "clip_value" in case:
                accelerator.clip_grad_value_(self.model.parameters(), case["clip_value"])
            self.optimizer.step()
            self.step_scheduler(loss)
            self.optimizer.zero_grad()
        seen["synced"].append(int(accelerator.sync_gradients))
        seen["lr"].append(float(self.optimizer.param_groups[0]["lr"]).hex())
        seen["skipped"].append(int(accelerator.optimizer_step_was_skipped))
        if accelerator.scaler is not None:
            seen["scale"].append(accelerator.scaler.get_scale().hex())
        self.done += 1

    def step_scheduler(self, loss):
        if self.scheduler is None:
            return
        if self.case["schedule"]["name"] == "plateau":
            # The ranks' losses differ, but a metric must be the same for all.
            self.scheduler.step(self.accelerator.reduce(loss.detach(), "mean").item())
        else:
            self.scheduler.step()


class GanRun(Run):
    """Two models, two optimizers, two backwards in each micro-batch; records only the generator's."""

    def prepare(self, net):
        case = self.case
        rival = make_optimizer(net.discriminator.parameters(), case["optimizer"])
        own = make_optimizer(net.generator.parameters(), case["optimizer"])
        self.generator, self.discriminator, self.optimizer, self.rival = self.accelerator.prepare(
            net.generator, net.discriminator, own, rival)

    def micro_batch(self, batch):
        accelerator, seen = self.accelerator, self.seen
        images = batch[0].flatten(1)
        with accelerator.accumulate(self.generator, self.discriminator):
            fakes = self.generator(torch.randn(len(images), 16))
            judged = self.discriminator(torch.cat([images, fakes.detach()]))
            told = parity_models.real_loss(judged[:len(images)], True) + parity_models.real_loss(
                judged[len(images):], False)
            accelerator.backward(told)
            self.rival.step()
            self.rival.zero_grad()
            loss = parity_models.real_loss(self.discriminator(fakes), True)
            accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        seen["loss"] += [told.item().hex(), loss.item().hex()]
        seen["samples"].append(len(images))
        seen["synced"].append(int(accelerator.sync_gradients))
        seen["lr"].append(float(self.optimizer.param_groups[0]["lr"]).hex())
        seen["skipped"].append(int(accelerator.optimizer_step_was_skipped))
        self.done += 1


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "--inputs":
        parity_models.write_inputs(sys.argv[2])
        return
    cases_path, inputs, outputs, *names = sys.argv[1:]
    with open(cases_path) as file:
        cases = {case["name"]: case for case in json.load(file)}
    data = load_file(f"{inputs}/data.safetensors")
    for name in names:
        run = (GanRun if cases[name]["model"] == "gan" else Run)(cases[name], inputs, data)
        started = time.perf_counter()
        seen = run.train()
        seen["seconds"] = time.perf_counter() - started
        with open(f"{outputs}/{name}.python.{run.accelerator.process_index}.json", "w") as file:
            json.dump(seen, file)
    run.accelerator.end_training()
    sys.stdout.flush()
    # Skips interpreter shutdown, where one of Gloo's threads may abort it (pytorch/pytorch#179291).
    os._exit(0)


if __name__ == "__main__":
    main()

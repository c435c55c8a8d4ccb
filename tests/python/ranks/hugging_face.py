"""A language model that is made on the spot, trained by the Hugging Face Trainer: hugging_face.py STEPS"""
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from muster.integrations.transformers import MusterCallback, checkpoint_to_resume


class Sequences(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        time.sleep(0.005)
        tokens = (torch.arange(16) + index) % 31
        return {"input_ids": tokens, "labels": tokens}


config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=31, eos_token_id=31)
arguments = TrainingArguments("out", max_steps=int(sys.argv[1]), per_device_train_batch_size=4, logging_steps=5,
                              save_steps=20, save_total_limit=2, report_to=[], use_cpu=True, disable_tqdm=True)
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Sequences(), callbacks=[MusterCallback()])
trainer.train(resume_from_checkpoint=checkpoint_to_resume())
print("done", trainer.state.global_step)

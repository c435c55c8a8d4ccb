"""A linear model, trained by Lightning on two ranks: lightning_fit.py STEPS"""
import sys
import time

import lightning.pytorch as pl
import torch

from muster.integrations.lightning import MusterCallback, checkpoint_to_resume


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        time.sleep(0.005)
        x = torch.full((4,), index / 256)
        return x, x.sum()


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        loss = (self.linear(batch[0]).squeeze(-1) - batch[1]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


trainer = pl.Trainer(max_steps=int(sys.argv[1]), max_epochs=-1, accelerator="cpu", devices=2, strategy="ddp",
                     logger=False, enable_checkpointing=False, log_every_n_steps=5, enable_progress_bar=False,
                     enable_model_summary=False, callbacks=[MusterCallback(save_every=20)])
trainer.fit(Model(), torch.utils.data.DataLoader(Numbers(), batch_size=4), ckpt_path=checkpoint_to_resume())
print("done", trainer.global_step)

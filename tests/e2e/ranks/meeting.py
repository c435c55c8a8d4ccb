"""Meets other ranks as c10d does, and waits for what one of them would tell."""
import os

from torch.distributed import TCPStore

address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
store = TCPStore(address, port, is_master=True, wait_for_workers=False)
store.set("of the job", "42")
print(f"meets at {address}:{port}", flush=True)
print("next is", store.get("next").decode(), flush=True)

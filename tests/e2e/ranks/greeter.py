"""Every rank greets rank 0 over MASTER_ADDR and MASTER_PORT; rank 0 prints who came. Needs nothing but Python."""
import os
import socket
import time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    came = {}
    with socket.create_server(place, reuse_port=True) as door:
        while len(came) < world - 1:
            peer, address = door.accept()
            with peer:
                came[int(peer.makefile().readline())] = address[0]
    print(f"greeted on {place[0]} by {came}", flush=True)
else:
    for _ in range(100):
        try:
            with socket.create_connection(place, timeout=10) as peer:
                peer.sendall(f"{rank}\n".encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    else:
        raise SystemExit("rank 0 does not listen")

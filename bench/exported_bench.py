"""`./dev bench exported`: nets that Python exported, trained by two C++ ranks, against the same nets in Python under
DistributedDataParallel with the same fused AdamW, in turns of the same minute. All twelve nets of the tests, and two larger ones.

At the end, a sparse file of torch.save of more than 4 GiB, whose last tensor lies behind a hole.

Numbers of both sides are compared by tests/trainer/exported; here Python's real DDP is compared with what that test expects.
"""
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import zipfile

from trainer_bench import ROOT, printed, start

BUILD = os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build"))
OURS = [os.path.join(BUILD, "bin", "bench", "bench_exported")]
TWIN = [sys.executable, "-W", "ignore", os.path.join(ROOT, "bench", "exported_twin.py")]
NETS_PY = os.path.join(ROOT, "tests/trainer/exported/exported_nets.py")
SMALL = "mlp cnn lstm gru unet experts gpt2 llama bert vit resnet t5".split()
LARGE = ["gpt2_large", "resnet_large"]
TURNS = 3


def once(command, *arguments):
    ranks, _ = start(command, arguments, 2)
    result = printed(ranks[0][1])
    if result is None or (command is OURS and any(code for code, _, _ in ranks)):
        raise SystemExit(f"exported: {' '.join(map(str, arguments))}\n{ranks[0][2][-2000:]}")
    return result


def middle(results, key):
    return statistics.median(each[key] for each in results)


def large_file(path):
    """6 GiB of a hole, then four numbers: places and sizes of more than 32 bits."""
    import torch

    with torch.serialization.skip_data():
        torch.save({"hole": torch.empty(6 << 28), "tail": torch.empty(4)}, path)
    with zipfile.ZipFile(path) as archive:
        entry = next(each for each in archive.infolist() if each.filename.endswith("/data/1"))
    with open(path, "r+b") as file:
        file.seek(entry.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(entry.header_offset + 30 + name + extra)
        file.write(struct.pack("<4f", 1, 2, 3, 4))


def bench_exported(_settings=None):
    print(f"{'net':14s} {'C++':>9s} {'Python':>9s} {'faster':>7s}  {'C++':>7s} {'Python':>7s} {'of it':>6s} {'zero3':>7s}  DDP")
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-W", "ignore", NETS_PY, directory, *SMALL, *LARGE], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python/src"), "OMP_NUM_THREADS": "1"})
        for name in SMALL + LARGE:
            steps = 20 if name in LARGE else 200
            file, inputs = f"{directory}/{name}.pt2", f"{directory}/{name}.inputs.pt"
            ours, theirs = [], []
            for _ in range(TURNS):
                ours.append(once(OURS, file, inputs, "none", steps))
                theirs.append(once(TWIN, directory, name, steps))
            sharded = once(OURS, file, inputs, "zero3", steps)
            ms, twin_ms = middle(ours, "ms"), middle(theirs, "ms")
            mb, twin_mb = middle(ours, "mb"), middle(theirs, "mb")
            wrong = theirs[0]["wrong"]
            print(f"{name:14s} {ms:6.2f} ms {twin_ms:6.2f} ms {twin_ms / ms:6.2f}×  {mb:4.0f} MB {twin_mb:4.0f} MB "
                  f"{mb / twin_mb:6.2f} {sharded['mb']:4.0f} MB  {'equal' if wrong == 0 else f'{wrong} differ'}", flush=True)
        path = directory + "/large.pt"
        large_file(path)
        told = printed(subprocess.run([*OURS, "weights", path], check=True, capture_output=True, text=True).stdout)
        used = os.stat(path).st_blocks * 512 / 1e6
        print(f"a file of {os.path.getsize(path) / 2**30:.1f} GiB ({used:.1f} MB on the disk): its last tensor after "
              f"{told['ms']:.1f} ms, {told['mb']:.1f} MB more, {'right' if told['sum'] == 10 else 'WRONG'}")

"""Trains a classifier of images in PyTorch, and continues where a killed run stopped.

    recordmill images --input photos/ --output dataset/ --size 48 --stratify \
        --splits train=0.6,validation=0.2,test=0.2
    python examples/torch/train_images.py --dataset dataset/ --checkpoint run.pt

A rerun continues after the last checkpoint, also with other numbers of hosts and workers. On
several hosts, start it with `torchrun`, and wrap the model in DistributedDataParallel.
"""

import argparse
import os
import pathlib

import torch
from torch import nn
from torch.utils.data import DataLoader

import recordmill

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--dataset", required=True, help="folder of the dataset")
parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="file to continue from")
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--workers", type=int, default=2, help="processes that decode")
parser.add_argument("--save-every", type=int, default=10, help="steps between checkpoints")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(args.seed)

hosts, host = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
size = 32  # of a batch of one host
labels = recordmill.open(args.dataset).manifest.labels
model = nn.Sequential(
    nn.Conv2d(3, 24, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(3),
    nn.Flatten(), nn.Dropout(0.3), nn.Linear(48 * 9, len(labels)),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters())

start = None
if args.checkpoint.exists():
    saved = torch.load(args.checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    start = saved["position"]
    print(f"continues in epoch {start['epoch']} after {start['records']} records")

run = {"shuffle": True, "seed": args.seed}
train = recordmill.torch_dataset(
    args.dataset, "train", batch_size=size, shard=(hosts, host), start=start,
    transform=recordmill.Decode(augment="flip,crop", normalize="signed"), **run,
)  # fmt: skip
loader = DataLoader(train, batch_size=None, num_workers=args.workers)
step = 0
for epoch in range(train.epoch, args.epochs):
    train.set_epoch(epoch)
    for images, wanted in loader:
        loss = nn.functional.cross_entropy(model(images.movedim(-1, 1)), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % args.save_every == 0 and host == 0:
            position = recordmill.position(
                args.dataset, step=step, global_batch=hosts * size, start=start, **run
            )
            new = args.checkpoint.with_suffix(".new")
            content = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**content, "position": position}, new)
            new.replace(args.checkpoint)

model.eval()
test = recordmill.torch_dataset(
    args.dataset, "test", batch_size=size, transform=recordmill.Decode(normalize="signed")
)
right: list[list[float]] = [[] for _ in labels]
with torch.no_grad():
    for images, wanted in DataLoader(test, batch_size=None):
        found = model(images.movedim(-1, 1)).argmax(1)
        for label, is_right in zip(wanted.tolist(), (found == wanted).tolist(), strict=True):
            right[label].append(is_right)
accuracies = [sum(one) / len(one) for one in right if one]
print(f"test accuracy {sum(accuracies) / len(accuracies):.2f} after {step} steps")

"""Reads batches of images by Grain, on one of several hosts, and continues on any number of them.

    recordmill images --input photos/ --output dataset/ --size 48 --splits train=1
    python examples/torch/read_with_grain.py --dataset dataset/ --state run.json --steps 20

A training step of JAX would stand where the mean is computed.
"""

import argparse
import json
import pathlib

import grain
import numpy as np

import recordmill

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--dataset", required=True, help="folder of the dataset")
parser.add_argument("--state", type=pathlib.Path, required=True, help="file to continue from")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--hosts", type=int, default=1)
parser.add_argument("--host", type=int, default=0)
args = parser.parse_args()

size = 16  # of a batch of one host
source = recordmill.grain_source(
    args.dataset,
    "train",
    shuffle=True,
    seed=1,
    epochs=1000,
    start=json.loads(args.state.read_text()) if args.state.exists() else None,
    transform=recordmill.Decode(augment="flip,crop"),
)
data = grain.MapDataset.source(source)[args.host :: args.hosts].batch(size, drop_remainder=True)
batches = iter(data.to_iter_dataset())
for _ in range(args.steps):
    images, labels = next(batches)
    mean = np.mean(images)
state = source.state(args.steps * args.hosts * size)
if args.host == 0:
    args.state.write_text(json.dumps(state))
print(f"mean {mean:.1f}; continues in epoch {state['epoch']} after {state['records']} records")

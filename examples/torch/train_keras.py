"""Trains a classifier of images by Keras 3 with its PyTorch backend, without TensorFlow.

    recordmill images --input photos/ --output dataset/ --size 48 --stratify \
        --splits train=0.6,validation=0.2,test=0.2
    KERAS_BACKEND=torch python examples/torch/train_keras.py --dataset dataset/
"""

import argparse

import keras
from keras import layers
from torch.utils.data import DataLoader

import recordmill

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--dataset", required=True, help="folder of the dataset")
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)


def loader(split: str, **options) -> DataLoader:
    decode = recordmill.Decode(normalize="signed", augment=options.pop("augment", ()))
    source = recordmill.torch_source(args.dataset, split, transform=decode, **options)
    return DataLoader(source, batch_size=32, num_workers=2)


model = keras.Sequential(
    [
        keras.Input((48, 48, 3)),
        layers.Conv2D(24, 5, strides=2, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(len(recordmill.open(args.dataset).manifest.labels), activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
train = loader("train", shuffle=True, seed=args.seed, augment="flip,crop")
for epoch in range(args.epochs):
    train.dataset.set_epoch(epoch)
    model.fit(train, epochs=epoch + 1, initial_epoch=epoch, verbose=2)
measured = model.evaluate(loader("test"), verbose=0, return_dict=True)
print(f"backend {keras.backend.backend()}, test accuracy {measured['accuracy']:.2f}")

"""Trains a classifier of images, with `model.fit`.

Of folders that are named as their classes, with photos/shoes/1.jpg and so on:

    recordmill images --input photos/ --output dataset/ --size 48 --stratify \
        --splits train=0.6,validation=0.2,test=0.2
    python examples/train_images.py --dataset dataset/

All classes count the same, in what is learned and in what is measured, rare ones too.
"""

import argparse

import keras
from keras import layers

import recordmill

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--dataset", required=True, help="folder of the dataset")
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

how = {"batch_size": 32, "normalize": "signed", "one_hot": True, "class_weights": True}
train = recordmill.load(
    args.dataset, "train", shuffle=True, seed=args.seed, augment="flip,crop", **how
)
validation = recordmill.load(args.dataset, "validation", **how)
test = recordmill.load(args.dataset, "test", **how)

images, labels, _ = train.element_spec
model = keras.Sequential(
    [
        keras.Input(images.shape[1:]),
        layers.Conv2D(24, 5, strides=2, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(labels.shape[-1], activation="softmax"),
    ]
)
model.compile("adam", "categorical_crossentropy", weighted_metrics=["accuracy"])
stop = keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)
model.fit(train, validation_data=validation, epochs=args.epochs, callbacks=[stop], verbose=2)
measured = model.evaluate(test, verbose=0, return_dict=True)
print(f"test accuracy {measured['accuracy']:.2f}")

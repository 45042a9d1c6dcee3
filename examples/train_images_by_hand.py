"""Trains a classifier of images, by a loop of its own that goes on where it was stopped.

Of folders that are named as their classes, with photos/shoes/1.jpg and so on:

    recordmill images --input photos/ --output dataset/ --size 48 --stratify \
        --splits train=0.6,validation=0.2,test=0.2
    python examples/train_images_by_hand.py --dataset dataset/ --checkpoints state/
"""

import argparse

import keras
import tensorflow as tf
from keras import layers

import recordmill

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--dataset", required=True, help="folder of the dataset")
parser.add_argument("--checkpoints", required=True, help="folder for the state of the training")
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

how = {"batch_size": 32, "normalize": "signed", "one_hot": True, "class_weights": True}
validation = recordmill.load(args.dataset, "validation", **how)
images, labels, _ = validation.element_spec
inputs = keras.Input(images.shape[1:])
x = layers.Conv2D(24, 5, strides=2, padding="same", activation="relu")(inputs)
x = layers.Conv2D(48, 3, padding="same", activation="relu")(layers.MaxPooling2D()(x))
x = layers.Dropout(0.5)(layers.Flatten()(layers.MaxPooling2D()(x)))
model = keras.Model(inputs, layers.Dense(labels.shape[-1], activation="softmax")(x))
model.compile("adam", "categorical_crossentropy", weighted_metrics=["accuracy"])
model.optimizer.build(model.trainable_variables)


@tf.function
def learn(x, y, weight):
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True), weight)
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables))


# Variable by variable: Checkpoint(model=model) would leave out the random state of Dropout.
state = tf.train.Checkpoint(variables=[*model.variables, *model.optimizer.variables])
checkpoints = tf.train.CheckpointManager(state, args.checkpoints, max_to_keep=1)
checkpoints.restore_or_initialize()
done = int(model.optimizer.iterations)
train = recordmill.load(
    args.dataset, "train", shuffle=True, seed=args.seed, augment="flip,crop", start=done, **how
)
for _ in range(done // len(train), args.epochs):
    for batch in train:
        learn(*batch)
    checkpoints.save()
    model.evaluate(validation, verbose=2)
measured = model.evaluate(recordmill.load(args.dataset, "test", **how), verbose=0, return_dict=True)
print(f"test accuracy {measured['accuracy']:.2f}")

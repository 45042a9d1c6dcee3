"""Trains a classifier of windows: by a day of sensors, whether benzene will rise within six hours.

Of a table with a row per hour, a column per sensor, and the column `trend`, which is `up` where
there is more benzene than six hours before, else `down`:

    recordmill sensor --input air.csv --output windows/ --time-column time --window 24 \
        --stride 2 --zscore benzene,co,nox,no2,ozone,heat,humidity --label-column trend \
        --window-label ahead:6 --split-by time --splits train=0.6,validation=0.2,test=0.2
    python examples/train_sensor.py --dataset windows/
"""

import argparse

import keras
from keras import layers

import recordmill

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--dataset", required=True, help="folder of the dataset")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
keras.utils.set_random_seed(args.seed)

how = {"batch_size": 32, "one_hot": True, "class_weights": True}
train = recordmill.load(args.dataset, "train", shuffle=True, seed=args.seed, **how)
validation = recordmill.load(args.dataset, "validation", **how)
test = recordmill.load(args.dataset, "test", **how)

columns, labels, _ = train.element_spec
inputs = {name: keras.Input(column.shape[1:], name=name) for name, column in columns.items()}
x = keras.ops.stack([*inputs.values()], axis=-1)
x = layers.Conv1D(32, 5, activation="relu")(x)
x = layers.Conv1D(32, 5, activation="relu")(x)
x = layers.Dropout(0.3)(layers.Flatten()(x))
model = keras.Model(inputs, layers.Dense(labels.shape[-1], activation="softmax")(x))
model.compile("adam", "categorical_crossentropy", weighted_metrics=["accuracy"])
stop = keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)
model.fit(train, validation_data=validation, epochs=args.epochs, callbacks=[stop], verbose=2)
measured = model.evaluate(test, verbose=0, return_dict=True)
print(f"test accuracy {measured['accuracy']:.2f}")

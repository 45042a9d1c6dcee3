"""Trains a classifier of texts, by the mean of the vectors that it learns for their words.

Of a table with the columns `text` and `label`:

    recordmill text --input messages.tsv --output texts/ --tokenizer words --min-tokens 1 \
        --dedup drop --stratify --splits train=0.6,validation=0.2,test=0.2
    python examples/train_text.py --dataset texts/

All classes count the same, in what is learned and in what is measured, rare ones too.
"""

import argparse
import os

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

_, labels, _ = train.element_spec
vocabulary = os.path.join(args.dataset, "vocabulary", "tokens.txt")
words = layers.StringLookup(vocabulary=vocabulary, mask_token="").vocabulary_size()
model = keras.Sequential(
    [
        layers.Embedding(words, 32, mask_zero=True),
        layers.GlobalAveragePooling1D(),
        layers.Dropout(0.3),
        layers.Dense(labels.shape[-1], activation="softmax"),
    ]
)
model.compile("adam", "categorical_crossentropy", weighted_metrics=["accuracy"])
stop = keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)
model.fit(train, validation_data=validation, epochs=args.epochs, callbacks=[stop], verbose=2)
measured = model.evaluate(test, verbose=0, return_dict=True)
print(f"test accuracy {measured['accuracy']:.2f}")

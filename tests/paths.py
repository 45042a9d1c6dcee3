"""Paths of the repository and of its test data, independent of where a test module lies."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "clothing"  # the input of `make demo`: 62 photos of 10 classes
DATA = ROOT / "tests" / "data"  # its README describes each set
CLOTHING = DATA / "clothing"  # 100 photos of 10 classes, as published
SMALL_CLOTHING = DATA / "clothing_small"  # 852 photos of 4 classes, reduced
ODD = DATA / "odd_images"
BOXES = DATA / "boxes"  # images/ and annotations.json, in COCO's format
SMS = DATA / "sms_spam" / "SMSSpamCollection"
AIR = DATA / "air_quality" / "AirQualityUCI.csv"
IMBALANCED = DATA / "imbalanced" / "imbalanced.csv"  # no header; the seventh column is the class
VIDEO = DATA / "video"
TFRECORDS = DATA / "tfrecords"  # written by other code than recordmill
HOSTILE = DATA / "hostile"

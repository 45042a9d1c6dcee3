"""Constants of image augmentation and normalization.

Writing (`--augment`) and loading (`augment=`) share them, so that a model sees the same images.
"""

MIN_CROP_AREA = 0.7  # the least fraction of the image's area that a crop keeps
MAX_LEVEL_CHANGE = 0.3  # brightness and contrast are scaled by 1 - this to 1 + this
MAX_DEGREES = 15.0  # the largest rotation in either direction

# Mean and standard deviation of ImageNet's training pixels (red, green, blue), on a 0..1 scale.
# Source: https://docs.pytorch.org/vision/stable/models.html
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

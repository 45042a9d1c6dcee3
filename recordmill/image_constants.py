"""Numbers by which pictures are varied and normalised, when they are written and when they are
read: so a model sees the same either way.
"""

LEAST_AREA = 0.7  # of the picture, that a crop keeps
FACTOR = 0.3  # brightness and contrast change by up to this, either way
DEGREES = 15.0  # a rotation turns by up to this, either way

# Mean and standard deviation of ImageNet's training pixels, red, green, blue, as fractions of 255.
# Source: https://docs.pytorch.org/vision/stable/models.html
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

"""Options of the images that are written."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from recordmill.errors import ConfigError
from recordmill.option_checks import Between, Expected, check_options
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option

ResizeMode = Literal["crop", "pad", "stretch", "fit", "none"]
ColorMode = Literal["rgb", "gray", "rgba"]
ImageFormat = Literal["jpeg", "png", "raw"]
Depth = Literal["auto", "8", "16"]
IntensityWindow = tuple[float, float] | Literal["image"]
Damaged = Literal["keep", "reject"]
Normalize = Literal["none", "unit", "signed", "imagenet"]

_Size = Annotated[
    tuple[int, int], Expected("(height, width) in pixels, such as (224, 224), or None")
]
_Background = Annotated[
    tuple[int, int, int],
    Expected("(red, green, blue) from 0 to 255, such as (255, 255, 255)"),
]

JPEG_SIDE = 65_500  # the greatest width and height that libjpeg writes
_MAX_PIXELS = 178_956_970  # Pillow's limit for a decompression bomb: 512 MiB as RGB


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Size, mode and encoding of the images that are written.

    Args:
      size: (height, width) in pixels; None keeps the size of each image.
      resize_mode: `crop` scales to cover `size` and crops the centre; `pad` scales to fit into
        `size` and pads with `background`; `stretch` ignores the aspect ratio; `fit` shrinks to fit
        into `size`, never enlarges, and does not pad. Requires `size`.
      mode: Channels: rgb, gray or rgba. Unless rgba, transparent pixels show `background`.
      background: (red, green, blue), 0 to 255, sRGB.
      image_format: `jpeg`, `png`, or `raw`: the pixels, uint8[height, width, channels] in C order,
        or uint16 with a depth of 16.
      depth: Bits per channel of png and raw, 8 or 16; `auto` is 16 if `DepthAnalysis` found an
        image of train with more than 8, else 8.
      quality: Quality of JPEG, 1 to 95 (above 95 files grow without a gain, according to Pillow).
      normalize: Raw pixels as little-endian float32: `unit` in [0, 1]; `signed` in [-1, 1];
        `imagenet` minus the mean and divided by the deviation of ImageNet's channels. `none` keeps
        integers.
      max_pixels: Images with more pixels are rejected, judged by the header before decoding.
      intensity_window: (low, high), the intensities of gray images that become black and white;
        `image` takes the lowest and the highest intensity of each image, and None the range of the
        type.
      damaged: `keep` writes what can be decoded of a JPEG whose data is damaged; `reject` rejects
        it.
      min_size: Minimum length of the shorter side in pixels; smaller images are left out.

    Raises:
        ConfigError: A value is invalid, or options contradict each other.
    """

    size: _Size | None = option(
        None,
        parse=values.size,
        show=values.show_size,
        metavar="N|HxW",
        help="Height and width in pixels. Default: every image keeps its own size.",
    )
    resize_mode: ResizeMode = option(
        "crop",
        help="How an image is brought to --size. crop: scale to cover it, cut the rest off. pad:"
        " scale to fit into it, fill the rest with --background. stretch: scale without keeping"
        " the aspect ratio. fit: only shrink until it fits. none: do not resize, and keep"
        " the original bytes if format and mode already match.",
    )
    mode: ColorMode = option("rgb", help="Colour channels.")
    background: _Background = option(
        (255, 255, 255),
        parse=values.colour,
        show=values.show_colour,
        metavar="R,G,B",
        help="Colour behind transparent pixels, and of the padding of --resize-mode pad.",
    )
    image_format: ImageFormat = option(
        "jpeg",
        help="Encoding of the images; raw is the bytes of the pixel array, for tf.io.decode_raw.",
    )
    depth: Depth = option(
        "auto",
        help="Bits per channel of every image; 16 needs --image-format png or raw. auto: 16 if the"
        " format allows 16 and an image of train has more than 8; else 8, with a note if images"
        " have more.",
    )
    quality: Annotated[int, Between(1, 95)] = option(90, help="JPEG quality, 1 to 95.")
    normalize: Normalize = option(
        "none",
        help="Write raw pixels as float32. unit: in [0, 1]. signed: in [-1, 1]. imagenet:"
        " standardized by ImageNet's mean and standard deviation. none: uint8, or uint16 with"
        " --depth 16.",
    )
    max_pixels: Annotated[int, Between(1, 2**31 - 1)] = option(
        _MAX_PIXELS,
        help="Reject images with more pixels, judged by the header before decoding.",
    )
    min_size: Annotated[int, Between(0, 2**31 - 1)] = option(
        0, metavar="PIXELS", help="Drop images whose shorter side is below this."
    )
    damaged: Damaged = option(
        "keep",
        help="JPEGs whose data is damaged, although libjpeg can decode them. keep: write them, with"
        " a note. reject: reject them.",
    )
    intensity_window: IntensityWindow | None = option(
        None,
        after="normalize",
        parse=values.intensity_window,
        show=values.show_intensity_window,
        metavar="LOW:HIGH",
        help="Scale the intensities of gray images so that LOW becomes black and HIGH becomes"
        " white, for medical and scientific images of 16 bits or floating point. image: LOW and"
        " HIGH are the extremes of each image. Default: the full range of the type.",
    )

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        if self.quality != ImageOptions.quality and self.image_format != "jpeg":
            raise ConfigError(
                f"{option_name('quality')}: has no effect with"
                f" {option_name('image_format', self.image_format)}, only with jpeg"
            )
        if isinstance(self.intensity_window, tuple):
            low, high = self.intensity_window
            if not low < high:
                raise ConfigError(
                    f"{option_name('intensity_window')}: expected LOW:HIGH with LOW below HIGH, got"
                    f" {low:g}:{high:g}"
                )
        if not all(0 <= level <= 255 for level in self.background):
            raise ConfigError(
                f"{option_name('background')}: expected red, green and blue from 0 to 255, such as"
                f" 255,255,255, got {self.background!r}"
            )
        self._check_size()
        if self.background != ImageOptions.background and (
            self.mode == "rgba" and self.resize_mode != "pad"
        ):
            raise ConfigError(
                f"{option_name('background')}: has no effect with {option_name('mode', 'rgba')},"
                " which keeps transparency, except for the padding of"
                f" {option_name('resize_mode', 'pad')}"
            )
        if self.mode == "rgba" and self.image_format == "jpeg":
            raise ConfigError(
                f"{option_name('mode', 'rgba')}: JPEG has no alpha channel; use"
                f" {option_name('image_format', 'png')} or raw, or {option_name('mode', 'rgb')}"
            )
        if self.bits == 16 and self.image_format not in ("png", "raw"):
            raise ConfigError(
                f"{option_name('depth', '16')}: {option_name('image_format', self.image_format)}"
                f" has 8 bits per channel; use {option_name('image_format', 'png')} or raw, or"
                f" {option_name('depth', '8')}"
            )
        if self.normalize != "none" and self.image_format != "raw":
            raise ConfigError(
                f"{option_name('normalize', self.normalize)}: only"
                f" {option_name('image_format', 'raw')} can hold floats, got {self.image_format}"
            )
        if self.normalize == "imagenet" and self.mode != "rgb":
            raise ConfigError(
                f"{option_name('normalize', 'imagenet')}: requires {option_name('mode', 'rgb')},"
                f" got {self.mode}; use unit or signed"
            )

    @property
    def bits(self) -> int:
        """Bits per channel of the written image: 8 or 16."""
        return 16 if self.depth == "16" else 8

    @property
    def finds_depth(self) -> bool:
        """True if `DepthAnalysis` has to find the depth."""
        return self.depth == "auto" and self.image_format != "jpeg"

    @property
    def of_masks(self) -> ImageOptions:
        """The options that limit the masks of images: `max_pixels` alone."""
        return ImageOptions(max_pixels=self.max_pixels)

    @property
    def is_raw(self) -> bool:
        """True if pixels are written without compression."""
        return self.image_format == "raw"

    def _check_size(self) -> None:
        size = option_name("size")
        if self.size is None:
            if self.resize_mode not in ("crop", "none"):
                raise ConfigError(
                    f"{option_name('resize_mode', self.resize_mode)}: requires {size}"
                )
            return
        if self.resize_mode == "none":
            raise ConfigError(
                f"{option_name('resize_mode', 'none')}: contradicts {size}; use only one of them"
            )
        shown = "x".join(map(str, self.size))
        if not all(1 <= side <= JPEG_SIDE for side in self.size):
            raise ConfigError(
                f"{size}: expected height and width from 1 to {JPEG_SIDE}, such as 224 or 480x640,"
                f" got {shown}"
            )
        if self.size[0] * self.size[1] > self.max_pixels:
            raise ConfigError(
                f"{size}: {shown} is more than {option_name('max_pixels', self.max_pixels)}"
            )

    @property
    def channels(self) -> int:
        """Number of channels of the written image."""
        return {"gray": 1, "rgb": 3, "rgba": 4}[self.mode]


# How stored images are decoded to be compared: as they are.
PLAIN = ImageOptions(image_format="png", max_pixels=(1 << 31) - 1)

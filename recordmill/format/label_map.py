"""label_map.pbtxt: the classes as the TensorFlow Object Detection API reads them.

Source: https://github.com/tensorflow/models/blob/master/research/object_detection/protos/
string_int_label_map.proto (StringIntLabelMap). Its readers reserve the number 0 for the background.
"""

from __future__ import annotations

from collections.abc import Sequence

from recordmill.format.schema import escaped


def label_map(labels: Sequence[str], *, label_offset: int) -> bytes:
    """Return a StringIntLabelMap in protobuf's text format.

    labels: class names in the order of their numbers. label_offset: the number of the first class.
    """
    return "".join(
        f'item {{\n  name: "{name}"\n  id: {number}\n  display_name: "{name}"\n}}\n'
        for number, name in enumerate(map(escaped, labels), start=label_offset)
    ).encode()

"""Waveforms and spectrograms in contact sheets and reports."""

import numpy as np
import pytest
from PIL import Image

from recordmill.pipelines.cli import main
from recordmill.report.audio_drawing import (
    BACKGROUND,
    LINE,
    draw_spectrogram,
    draw_waveform,
    upright,
)
from recordmill.report.contact_sheet import HEAD, NAME_WIDTH
from tests.sounds import chirp, write

SIZE = (40, 20)


def is_line(image: Image.Image) -> np.ndarray:
    """Return which pixels belong to the line, bool[height, width]."""
    pixels = np.asarray(image)
    line = (pixels == LINE).all(axis=2)
    assert (line | (pixels == BACKGROUND).all(axis=2)).all()
    return line


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("count", [1, 3, 40, 5000])
def test_a_waveform_goes_from_left_to_right(count, dtype):
    samples = np.linspace(-3000, 3000, count).astype(dtype)
    line = is_line(draw_waveform(samples, SIZE))
    assert line.shape == SIZE[::-1]
    assert line.any(axis=0).all()
    if count > 1:
        assert line[-1, 0]
        assert line[0, -1]
        assert not line[0, 0]
        assert not line[-1, -1]


def test_silence_is_a_line_in_the_middle():
    line = is_line(draw_waveform(np.zeros(100, np.float32), (40, 21)))
    assert line.any(axis=1).nonzero()[0].tolist() == [10]


def test_channels_are_one_below_the_other():
    tone = np.sin(np.arange(4000))
    line = is_line(draw_waveform(np.stack([tone, 0 * tone], axis=1), SIZE))
    assert line[:10].all()
    assert line[10:].mean() < 0.25


def test_the_lowest_bin_of_a_spectrogram_is_at_the_bottom():
    decibels = np.full((30, 8), -100, np.float32)
    decibels[15:, 0] = -5
    assert upright(decibels).min() == -85
    grey = np.asarray(draw_spectrogram(decibels, SIZE).convert("L"), np.float32)
    assert grey.shape == SIZE[::-1]
    assert grey[-1, -1] > grey[-1, 0] + 50
    assert grey[-1, -1] > grey[0, -1] + 50


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--mono", "--dtype", "int16"],
        ["--sample-rate", "16000", "--features", "melspectrogram"],
        ["--rename", "audio/waveform=sound"],
    ],
)
def test_contact_sheets_and_reports_draw_audio(tmp_path, options):
    for number in range(4):
        sound = chirp(16000, 3000 + 100 * number)
        write(tmp_path / "in" / "yes" / f"{number}.wav", np.stack([sound, -sound], axis=1))
    out, sheet, page = (str(tmp_path / name) for name in ("out", "sheet.png", "page.html"))
    inputs = ["--input", str(tmp_path / "in"), "--splits", "train=1"]
    assert main(["audio", *inputs, "--output", out, "--quiet", *options]) == 0
    assert main(["inspect", "--dataset", out, "--sheet", sheet, "--tile-size", "40"]) == 0
    with Image.open(sheet) as image:
        row = np.asarray(image)[HEAD : HEAD + 40, NAME_WIDTH : NAME_WIDTH + 160]
        tiles = row.reshape(40, 4, 40, 3)
        colours = {tuple(one) for one in tiles[2:-2, :, 2:-2].reshape(-1, 3).tolist()}
        if "melspectrogram" in options:
            assert len(colours) > 9
        else:
            assert colours == {LINE, BACKGROUND}
        assert all((tiles[:, one, 2:-2].std(axis=(0, 1)) > 5).any() for one in range(4))
    assert main(["report", "--dataset", out, "--output", page]) == 0
    has_image = "--mono" not in options  # which has a line
    assert ("data:image/jpeg" in (tmp_path / "page.html").read_text()) == has_image


def test_a_dataset_with_encoded_audio_alone_has_no_sheet(tmp_path, capsys):
    write(tmp_path / "in" / "a.wav", chirp(16000, 3000))
    out = str(tmp_path / "out")
    inputs = ["--input", str(tmp_path / "in"), "--splits", "train=1", "--features", "encoded"]
    assert main(["audio", *inputs, "--output", out, "--quiet"]) == 0
    assert main(["inspect", "--dataset", out, "--sheet", str(tmp_path / "sheet.png")]) == 2
    assert "no encoded images, waveforms or spectrograms" in capsys.readouterr().err

"""Whole ONNX models that packages ship, against ONNX Runtime: voices, text in images, file types, objects.

All outputs agree to 1e-4, absolutely. The boxes of the YOLO model are compared in the unit in which it
finds them, cells of 8, 16 or 32 pixels, before its last node multiplies them by the size of a cell. In
pixels they differ by up to 2.3e-4: float32 rounding of the convolutions, times that factor. Measured
against our own run of the same model in float64, ONNX Runtime is off by 1.6e-4 pixels and ours by 1.5e-4.
"""

from itertools import zip_longest

import numpy as np
import onnxruntime
import pytest
from PIL import Image, ImageDraw, ImageFont
from tests.oracle.model_files import shipped

from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

TOLERANCE = 1e-4


class Pair:
    """A model twice: in ONNX Runtime and in ours."""

    def __init__(self, package: str, ending: str):
        path = shipped(package, ending)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.theirs = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self.ours = OnnxRunner(path)

    def __call__(self, *units: np.ndarray, **inputs: np.ndarray) -> list[np.ndarray]:
        """What ONNX Runtime gives, after ours was compared with it (in these units, where given)."""
        want = self.theirs.run(None, inputs)
        got = list(self.ours({name: Tensor(value) for name, value in inputs.items()}).values())
        assert len(got) == len(want)
        for mine, other, unit in zip_longest(got, want, units, fillvalue=1.0):
            assert mine.shape == other.shape
            np.testing.assert_allclose(mine.numpy() / unit, other / unit, rtol=0, atol=TOLERANCE)
        return want


# *** voices ***
def sound(rate: int, count: int) -> np.ndarray:
    """Something like a voice: harmonics of a gliding pitch with pauses, and noise."""
    seconds = np.arange(count) / rate
    pitch = np.cumsum(120 + 40 * np.sin(2 * np.pi * 0.7 * seconds)) / rate
    voice = sum(np.sin(2 * np.pi * k * pitch) / k for k in range(1, 12))
    loud = np.clip(np.sin(2 * np.pi * 2.5 * seconds), 0, None)
    noise = np.random.default_rng(rate).normal(size=count)
    return (0.2 * voice * loud + 0.01 * noise).astype(np.float32)


@pytest.mark.parametrize("rate", [16000, 8000])
@pytest.mark.parametrize("name", ["silero_vad.onnx", "silero_vad_op18_ifless.onnx"])
def test_silero_vad(name, rate):
    model = Pair("silero-vad", f"data/{name}")
    window, context = rate // 500 * 16, rate // 250
    wave = np.concatenate([np.zeros(context, np.float32), sound(rate, 12 * window)])
    state = np.zeros((2, 1, 128), np.float32)
    heard = []
    for start in range(0, 12 * window, window):
        part = wave[None, start : start + window + context]
        chance, state = model(input=part, state=state, sr=np.array(rate, np.int64))
        heard.append(chance.item())
    # the comparison would mean little for a model that answers the same to everything
    assert max(heard) - min(heard) > 0.05, heard


def test_silero_vad_over_a_sequence():
    wave = sound(16000, 576 * 6).reshape(6, 576)
    zero = np.zeros((1, 1, 128), np.float32)
    Pair("silero-vad", "silero_vad_16k_sequence.onnx")(input=wave, h=zero, c=zero)


# *** text in images ***
def picture(text: str, width: int, height: int, size: int) -> np.ndarray:
    """Dark text on light ground, (1, 3, height, width), from -1 to 1."""
    image = Image.new("RGB", (width, height), (240, 240, 230))
    font = ImageFont.load_default(size)
    ImageDraw.Draw(image).text((8, (height - size) // 2), text, (20, 20, 40), font)
    values = np.asarray(image, np.float32).transpose(2, 0, 1)[None]
    return np.ascontiguousarray(values / 127.5 - 1)


def test_ocr_finds_text():
    model = Pair("rapidocr-onnxruntime", "PP-OCRv4_det_infer.onnx")
    (chart,) = model(x=picture("Hello 42", 256, 160, 36))
    assert chart.max() > 0.5


def test_ocr_tells_what_is_upside_down():
    model = Pair("rapidocr-onnxruntime", "ppocr_mobile_v2.0_cls_infer.onnx")
    image = picture("Hello 42", 192, 48, 32)
    (upright,) = model(x=image)
    (turned,) = model(x=np.ascontiguousarray(image[:, :, ::-1, ::-1]))
    assert upright.argmax() == 0 and turned.argmax() == 1


def test_ocr_reads():
    model = Pair("rapidocr-onnxruntime", "PP-OCRv4_rec_infer.onnx")
    (chances,) = model(x=picture("small letters", 256, 48, 36))
    letters = ["", *model.theirs.get_modelmeta().custom_metadata_map["character"].split("\n"), " "]
    best = chances[0].argmax(-1)
    changes = np.insert(best[1:] != best[:-1], 0, True)
    assert "".join(letters[code] for code in best[changes]).strip() == "small letters"


# *** kinds of files ***
def test_magika():
    model = Pair("magika", "standard_v3_3/model.onnx")
    samples = [b"def f(x):\n    return x + 1\n" * 40, b"<html><body>" * 90, bytes(range(256)) * 8]
    (name,) = [given.name for given in model.theirs.get_inputs()]
    # 1024 bytes of the beginning and of the end; 256 stands for none
    rows = [[*part[:1024].ljust(1024)] + [*part[-1024:].rjust(1024)] for part in samples]
    (scores,) = model(**{name: np.array(rows, np.int32)})
    assert len(set(scores.argmax(-1))) == 3


# *** objects ***
def test_yolo():
    image = picture("Hello 42", 320, 320, 60)
    image += np.random.default_rng(0).normal(size=image.shape).astype(np.float32)
    # four coordinates and 18 scores of each cell of three grids
    cells = np.repeat([8.0, 16.0, 32.0], [40 * 40, 20 * 20, 10 * 10])
    unit = np.concatenate([np.tile(cells, (4, 1)), np.ones((18, len(cells)))])
    (found,) = Pair("nudenet", "320n.onnx")(unit, images=image / 2)
    assert 100 < found[0, :4].max() < 1000

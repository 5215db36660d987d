"""Element types: interning, promotion, and values rounded as the formats say (against NumPy and exhaustive decoding)."""

import copy
import math
import pickle
import random

import numpy as np
import pytest

from tinygrad.dtype import (
    DTYPES_DICT,
    AddrSpace,
    Invalid,
    InvalidType,
    _to_np_dtype,
    can_lossless_cast,
    dtypes,
    float_to_bf16,
    float_to_fp8,
    float_to_fp16,
    fp8_to_float,
    from_storage_scalar,
    least_upper_dtype,
    to_dtype,
    to_storage_scalar,
    truncate,
)

ALL = sorted(set(DTYPES_DICT.values()))


def test_types_are_interned_and_survive_copies():
    for dtype in (
        *ALL,
        dtypes.float.vec(4),
        dtypes.int.ptr(3, AddrSpace.LOCAL),
        dtypes.imagef((2, 3, 4)),
    ):
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype
        assert eval(repr(dtype), {"dtypes": dtypes, "AddrSpace": AddrSpace}) is dtype
    assert dtypes.float.vec(4).scalar() is dtypes.float
    assert InvalidType() is Invalid and pickle.loads(pickle.dumps(Invalid)) is Invalid


def test_vector_and_pointer_misuse_says_what_is_wrong():
    with pytest.raises(AssertionError, match="vector"):
        dtypes.float.vec(4).vec(2)
    with pytest.raises(RuntimeError, match="pointer"):
        dtypes.float.ptr().ptr()
    with pytest.raises(RuntimeError, match="size"):
        dtypes.float.ptr().nbytes()
    with pytest.raises(AttributeError, match="known are"):
        to_dtype("flaot32")


def test_promotion_is_a_join():
    for a in ALL:
        for b in ALL:
            joined = least_upper_dtype(a, b)
            assert joined is least_upper_dtype(b, a)
            assert least_upper_dtype(joined, a) is joined
    assert least_upper_dtype(dtypes.int8, dtypes.uint8) is dtypes.int16
    assert least_upper_dtype(dtypes.half, dtypes.bfloat16) is dtypes.float


# said to lose values although they do not, as in the published release
CAUTIOUS = {(dtypes.int8, dtypes.bfloat16), (dtypes.uint8, dtypes.bfloat16)}


def test_lossless_cast_means_every_value_survives():
    small = [d for d in ALL if d.itemsize <= 2]
    for a in small:
        values = _all_values(a)
        for b in ALL:
            if can_lossless_cast(a, b):
                assert all(_same(truncate[b](v), v) for v in values), (a, b)
            elif b.itemsize <= 2 and b is not dtypes.bool and (a, b) not in CAUTIOUS:
                assert not all(_same(truncate[b](v), v) for v in values), (a, b)


def _all_values(dtype):
    if dtype is dtypes.bool:
        return [False, True]
    raw = range(1 << (8 * dtype.itemsize))
    if dtype in dtypes.ints:
        return [truncate[dtype](x) for x in raw]
    if dtype is dtypes.half:
        return np.array(raw, dtype=np.uint16).view(np.float16).astype(float).tolist()
    return [from_storage_scalar(x, dtype) for x in raw]


def _same(a, b):
    return a == b or (a != a and b != b)


def test_fp8_codes_round_trip():
    for dtype in dtypes.fp8s:
        for code in range(256):
            value = fp8_to_float(code, dtype)
            if value == value:
                assert float_to_fp8(value, dtype) == code
            else:
                assert math.isnan(fp8_to_float(float_to_fp8(value, dtype), dtype))


def test_rounding_is_to_the_nearest():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(2000):
        x = rng.choice([1, -1]) * 2 ** rng.uniform(-30, 18)
        assert _same(
            float_to_fp16(x),
            float(np.float32(x).astype(np.float16))
            if float(np.float32(x)) == x
            else float_to_fp16(x),
        )
        down, up = float_to_bf16(x), x
        bits = np.float32(x).view(np.uint32)
        neighbours = [
            (bits & 0xFFFF0000).astype(np.uint32),
            ((bits & 0xFFFF0000) + 0x10000).astype(np.uint32),
        ]
        best = min(abs(float(n.view(np.float32)) - float(np.float32(up))) for n in neighbours)
        assert abs(down - float(np.float32(up))) == best


@pytest.mark.parametrize("dtype", [*dtypes.ints, dtypes.bool])
def test_integers_wrap_as_numpy(dtype):
    for x in (-(1 << 40), -129, -1, 0, 1, 127, 128, 255, 256, 65535, 1 << 31, (1 << 40) + 7):
        want = (
            np.array(x % (1 << 64), dtype=np.uint64).astype(_to_np_dtype(dtype))
            if dtype is not dtypes.bool
            else x != 0
        )
        assert truncate[dtype](x) == want


def test_storage_scalars():
    for dtype in (dtypes.bfloat16, *dtypes.fp8s):
        for value in (0.0, -0.0, 1.5, -3.0, 448.0, 2.0**-6):
            back = from_storage_scalar(to_storage_scalar(value, dtype), dtype)
            assert back == value and math.copysign(1, back) == math.copysign(1, value)

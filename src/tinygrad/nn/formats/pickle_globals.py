"""What the globals that a checkpoint's pickle names stand for: nothing is imported, nothing of it runs.

Three kinds. What state dicts are made of has a stand-in of ours (`ALLOWED`, `KINDS`, and what the reader of
tensors adds). Classes of other projects, and those of the standard library that hold data, become empty
placeholders, as in the published release: a checkpoint of a whole training run names many. All else of the
standard library (`os.system`, `builtins.eval`) has no business in a checkpoint and is refused by name.
"""

from __future__ import annotations

import collections
import math
import pickle
import sys
from typing import Any, Literal, NamedTuple

import numpy as np

from tinygrad.dtype import DType, dtypes


class Kind(NamedTuple):
    """A storage class or dtype of PyTorch; a tuple, which no pickle opcode can change."""

    name: str
    dtype: DType | None


_STORAGES: dict[str, DType | None] = {
    "HalfStorage": dtypes.float16, "FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64,
    "BFloat16Storage": dtypes.bfloat16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
    "ShortStorage": dtypes.int16, "IntStorage": dtypes.int32, "LongStorage": dtypes.int64,
    "BoolStorage": dtypes.bool, "UntypedStorage": dtypes.uint8, "ComplexFloatStorage": None,
    "ComplexDoubleStorage": None, "QInt8Storage": dtypes.int8, "QUInt8Storage": dtypes.uint8,
    "QInt32Storage": dtypes.int32, "QUInt4x2Storage": None, "QUInt2x4Storage": None,
}  # fmt: skip
_DTYPES: dict[str, DType | None] = {
    "float16": dtypes.float16, "half": dtypes.float16, "float32": dtypes.float32, "float": dtypes.float32,
    "float64": dtypes.float64, "double": dtypes.float64, "bfloat16": dtypes.bfloat16,
    "int8": dtypes.int8, "uint8": dtypes.uint8, "int16": dtypes.int16, "short": dtypes.int16,
    "int32": dtypes.int32, "int": dtypes.int32, "int64": dtypes.int64, "long": dtypes.int64,
    "uint16": dtypes.uint16, "uint32": dtypes.uint32, "uint64": dtypes.uint64, "bool": dtypes.bool,
    "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2, "complex32": None, "complex64": None,
    "complex128": None, "float8_e4m3fnuz": None, "float8_e5m2fnuz": None, "float8_e8m0fnu": None,
    "float4_e2m1fn_x2": None,
}  # fmt: skip


class Placeholder:
    """Stands for an object of a class that is not loaded; takes what a pickle gives it."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs, self.items = args, kwargs, []

    def __setstate__(self, state):
        self.state = state

    def append(self, value):
        """Part of a list."""
        self.__dict__.setdefault("items", []).append(value)

    def extend(self, values):
        """Part of a list."""
        self.__dict__.setdefault("items", []).extend(values)

    def __setitem__(self, key, value):
        self.append((key, value))


def first(value: Any, *_: Any) -> Any:
    """The first argument, for what only wraps it."""
    return value


def _plain_dict(*args: Any) -> dict[Any, Any]:
    """A defaultdict (of a factory) or a Counter (of a dict)."""
    return dict(args[0]) if args and isinstance(args[0], dict) else {}


def _plain_object(kind: Any, *_: Any) -> Any:
    """What copyreg makes of objects in old protocols."""
    if not (isinstance(kind, type) and issubclass(kind, Placeholder)):
        raise pickle.UnpicklingError(f"an object of {kind!r} is not allowed")
    return kind()


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    """Bytes as protocol 2 writes them: text of the same numbers."""
    if encoding not in ("latin1", "latin-1") or not isinstance(text, (str, bytes)):
        raise pickle.UnpicklingError(f"bytes of {type(text).__name__} encoded in {encoding!r}")
    return text.encode("latin1") if isinstance(text, str) else text


def _bytearray(*args: Any) -> bytearray:
    return bytearray(_bytes(*args))


# *** NumPy: a number of a training run, the state of a random generator ***
class _ArrayKind:
    """A dtype of numbers, booleans or bytes."""

    def __init__(self, code: Any, *_: Any):
        if not isinstance(code, str) or code[:1] not in tuple("biufcS?"):
            raise pickle.UnpicklingError(f"NumPy arrays of {code!r} are not allowed")
        self.code = code
        self.order: Literal["=", "<", ">", "|"] = "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1] if state[1] in ("<", ">", "|") else "="

    def made(self) -> np.dtype:
        """The dtype itself."""
        return np.dtype(self.code).newbyteorder(self.order)


class _Array(np.ndarray):
    """An array that is filled from plain bytes only."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, is_fortran, data = state
        if not isinstance(kind, _ArrayKind) or not isinstance(data, (bytes, str)):
            raise pickle.UnpicklingError("a NumPy array holds something else than numbers")
        made, content = kind.made(), _bytes(data)
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise pickle.UnpicklingError(f"a NumPy array has the shape {shape!r}")
        # NumPy allocates for the shape before it looks at the bytes
        if len(content) != math.prod(shape) * made.itemsize:
            raise pickle.UnpicklingError(
                f"a NumPy array of shape {shape} and {made} has {len(content)} bytes"
            )
        super().__setstate__((1, shape, made, bool(is_fortran), content))  # type: ignore[arg-type]


def _array(*_: Any) -> np.ndarray:
    return np.empty(0, np.uint8).view(_Array)


def _array_type(*_: Any) -> None:
    raise pickle.UnpicklingError("a NumPy array is made by _reconstruct only")


def _scalar(kind: Any, data: Any = b"") -> Any:
    if not isinstance(kind, _ArrayKind):
        raise pickle.UnpicklingError(f"a NumPy number is of {kind!r}")
    (value,) = np.frombuffer(_bytes(data), kind.made())
    return value


# module and name -> what stands for it
ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): _plain_dict, ("collections", "Counter"): _plain_dict,
    ("torch", "Size"): tuple, ("builtins", "set"): set, ("__builtin__", "set"): set,
    ("builtins", "frozenset"): frozenset, ("__builtin__", "frozenset"): frozenset,
    ("builtins", "complex"): complex, ("__builtin__", "complex"): complex,
    ("builtins", "bytearray"): _bytearray, ("__builtin__", "bytearray"): _bytearray,
    ("builtins", "bytes"): _bytes, ("__builtin__", "bytes"): _bytes, ("_codecs", "encode"): _bytes, ("copyreg", "_reconstructor"): _plain_object,
    ("copy_reg", "_reconstructor"): _plain_object, ("numpy", "dtype"): _ArrayKind,
    ("numpy", "ndarray"): _array_type,
    **{
        (f"numpy.{core}.multiarray", name): made
        for core in ("core", "_core")
        for name, made in (("scalar", _scalar), ("_reconstruct", _array))
    },
}  # fmt: skip
_STANDARD = {*sys.stdlib_module_names, "__builtin__", "copy_reg", "commands"}
# of the standard library, as placeholders: types that say of what class something is, and plain values
_DATA: dict[str, frozenset[str]] = {
    "argparse": frozenset({"Namespace"}), "collections": frozenset({"deque"}),
    "types": frozenset({"SimpleNamespace"}), "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}), "uuid": frozenset({"UUID"}), "functools": frozenset({"partial"}),
    "datetime": frozenset({"date", "datetime", "time", "timedelta", "timezone"}),
    "pathlib": frozenset({"Path", "PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath"}),
    "builtins": frozenset({
        "bool", "dict", "float", "int", "list", "object", "range", "slice", "str", "tuple", "type",
    }),
    "typing": frozenset({"Any", "Dict", "List", "Optional", "Set", "Tuple", "Union"}),
}  # fmt: skip
_DATA["__builtin__"] = _DATA["builtins"] | {"long", "unicode"}
_DATA["pathlib._local"] = _DATA["pathlib"]


def stand_in(module: str, name: str) -> Any:
    """What `module.name` stands for. Raises pickle.UnpicklingError for what is refused."""
    if (module, name) in ALLOWED:
        return ALLOWED[module, name]
    if module in ("torch", "torch.cuda", "torch.storage") and name in _STORAGES:
        return Kind(name, _STORAGES[name])
    if module == "torch" and name in _DTYPES:
        return Kind(name, _DTYPES[name])
    standard = module.partition(".")[0] in _STANDARD
    # tensors of a kind that is not read would silently be no tensors
    rebuilds = module in ("torch._utils", "torch._tensor") and name.startswith("_rebuild")
    if rebuilds or (standard and name not in _DATA.get(module, ())):
        raise pickle.UnpicklingError(
            f"the checkpoint names {module}.{name}, which is not allowed: nothing of it was run"
        )
    return type(name.rpartition(".")[2] or "Unnamed", (Placeholder,), {"__module__": module})

"""Operators on text, which is held in object arrays on the host."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from tinygrad.nn.onnx_parts.kinds import Domain
from tinygrad.nn.onnx_parts.registry import operator
from tinygrad.tensor import Tensor


def _each(x: np.ndarray, function) -> np.ndarray:
    made = np.empty(x.size, dtype=object)
    made[:] = [function(str(v)) for v in x.reshape(-1)]
    return made.reshape(x.shape)


@operator("StringConcat")
def string_concat(x, y):
    """The texts joined, with broadcasting."""
    return np.asarray(np.add(x, y), dtype=object)


@operator("StringSplit")
def string_split(x, delimiter: str = "", maxsplit: int | None = None):
    """The pieces of each text, filled up with empty ones; how many there are."""
    limit = -1 if maxsplit is None else maxsplit
    pieces = [str(v).split(delimiter or None, limit) for v in x.reshape(-1)]
    width = max(map(len, pieces), default=0)
    table = np.full((len(pieces), width), "", dtype=object)
    for row, parts in zip(table, pieces):
        row[: len(parts)] = parts
    counts = np.array([len(parts) for parts in pieces], dtype=np.int64)
    return table.reshape(*x.shape, width), Tensor(counts.reshape(x.shape))


@operator("RegexFullMatch")
def regex_full_match(x, pattern: str) -> Tensor:
    """Whether the whole text fits a pattern."""
    rule = re.compile(pattern)
    return Tensor(_each(x, lambda v: rule.fullmatch(v) is not None).astype(np.bool_))


@operator("StringNormalizer")
def string_normalizer(x, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "",
                      stopwords=None):  # fmt: skip
    """Texts without the stop words, in upper or lower case on demand."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, str)
    same = str if is_case_sensitive else str.lower
    stop = {same(word) for word in stopwords or []}
    lines = x.reshape(1, -1) if x.ndim == 1 else x
    kept = [[change(str(v)) for v in line if same(str(v)) not in stop] for line in lines]
    kept = [line or [""] for line in kept]
    made = np.array(kept, dtype=object)
    return made.reshape(-1) if x.ndim == 1 else made


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(x, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
                      ngram_counts, ngram_indexes, pool_int64s=None, pool_strings=None, weights=None):  # fmt: skip
    """How often known sequences of neighbours occur in each line, counted, weighted or both."""
    pool = pool_int64s if pool_strings is None else pool_strings
    known: dict[tuple, int] = {}
    bounds = [*ngram_counts, len(pool)]
    for n, (start, end) in enumerate(zip(bounds, bounds[1:]), start=1):
        for i in range(start, end, n):
            known[tuple(pool[i : i + n])] = len(known)
    values = x.numpy() if isinstance(x, Tensor) else x
    lines = values.reshape(1, -1) if values.ndim == 1 else values
    result = np.zeros((len(lines), max(ngram_indexes) + 1), dtype=np.float32)
    for row, line in zip(result, lines):
        counts: Counter = Counter()
        for n in range(min_gram_length, max_gram_length + 1):
            for gap in range(1, (max_skip_count if n > 1 else 0) + 2):
                for start in range(len(line) - (n - 1) * gap):
                    counts[tuple(line[start : start + (n - 1) * gap + 1 : gap].tolist())] += 1
        for gram, count in counts.items():
            if gram in known:
                weight = 1.0 if weights is None else weights[known[gram]]
                row[ngram_indexes[known[gram]]] = {"TF": count, "IDF": weight}.get(
                    mode, count * weight
                )
    return Tensor(result[0] if values.ndim == 1 else result)


# *** labels ***
_KEYS = ("keys_int64s", "keys_strings", "keys_floats", "keys_tensor")
_VALUES = ("values_int64s", "values_strings", "values_floats", "values_tensor")
_DEFAULTS = {
    "values_int64s": "default_int64",
    "values_strings": "default_string",
    "values_floats": "default_float",
}
_FALLBACKS = {"default_int64": -1, "default_string": "_Unused", "default_float": -0.0}
_ARRAYS = {"values_int64s": np.int64, "values_strings": object, "values_floats": np.float32}


def _listed(value: Any) -> list:
    listed: Any = value.tolist if isinstance(value, (Tensor, np.ndarray)) else None
    return list(value) if listed is None else listed()


@operator("LabelEncoder", domain=Domain.ONNX_ML, since=2)
def label_encoder(x, **options):
    """Each element replaced by the value that belongs to it as a key."""
    keys = _listed(next(options[name] for name in _KEYS if name in options))
    kind = next(name for name in _VALUES if name in options)
    table = dict(zip(keys, _listed(options[kind])))
    if kind == "values_tensor":
        default = options.get("default_tensor")
        missing = _listed(default.reshape(-1))[0] if default is not None else -1
        dtype = object if isinstance(options[kind], np.ndarray) else options[kind].numpy().dtype
    else:
        name = _DEFAULTS[kind]
        missing, dtype = options.get(name, _FALLBACKS[name]), _ARRAYS[kind]
    values = x.numpy() if isinstance(x, Tensor) else x
    flat = [table.get(v, missing) for v in values.reshape(-1).tolist()]
    made = np.array(flat, dtype=dtype).reshape(values.shape)
    return made if dtype is object else Tensor(made)


@operator("LabelEncoder", domain=Domain.ONNX_ML, since=1)
def label_encoder_1(x, classes_strings, default_int64: int = -1, default_string: str = "_Unused"):
    """Numbers for texts or texts for numbers, by the place in a list."""
    if isinstance(x, Tensor):
        return label_encoder(
            x, keys_int64s=range(len(classes_strings)), values_strings=classes_strings,
            default_string=default_string,
        )  # fmt: skip
    return label_encoder(
        x, keys_strings=classes_strings, values_int64s=range(len(classes_strings)),
        default_int64=default_int64,
    )  # fmt: skip

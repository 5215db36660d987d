"""Classical models of the ai.onnx.ml domain: scaling, linear models, trees."""

from __future__ import annotations

import numpy as np

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_ML = Domain.ONNX_ML


@operator("Binarizer", domain=_ML)
def binarizer(x: Tensor, threshold: float = 0.0) -> Tensor:
    """One above the threshold, else zero."""
    return (x > threshold).cast(x.dtype)


@operator("Scaler", domain=_ML)
def scaler(x: Tensor, offset=None, scale=None) -> Tensor:
    """(x - offset) * scale by feature."""
    moved = x.cast(dtypes.float32) - Tensor(list(offset or [0.0]), dtype=dtypes.float32)
    return moved * Tensor(list(scale or [1.0]), dtype=dtypes.float32)


@operator("Normalizer", domain=_ML)
def normalizer(x: Tensor, norm: str = "MAX") -> Tensor:
    """Rows divided by their largest element, sum or length."""
    x = x.cast(dtypes.float32)
    if norm == "MAX":
        size = x.abs().max(-1, keepdim=True)
    else:
        size = (
            x.abs().sum(-1, keepdim=True) if norm == "L1" else (x * x).sum(-1, keepdim=True).sqrt()
        )
    return x / (size == 0).where(1, size)


@operator("Imputer", domain=_ML)
def imputer(x: Tensor, imputed_value_floats=None, imputed_value_int64s=None, replaced_value_float=0.0,
            replaced_value_int64: int = 0) -> Tensor:  # fmt: skip
    """Elements that stand for nothing replaced, by feature."""
    if imputed_value_int64s is not None:
        return (x == replaced_value_int64).where(
            Tensor(list(imputed_value_int64s), dtype=x.dtype), x
        )
    missing = (
        x.isnan() if replaced_value_float != replaced_value_float else x == replaced_value_float
    )
    return missing.where(Tensor(list(imputed_value_floats), dtype=x.dtype), x)


def _post(scores: Tensor, transform: str) -> Tensor:
    if transform == "LOGISTIC":
        return scores.sigmoid()
    if transform == "SOFTMAX":
        return scores.softmax(-1)
    if transform == "SOFTMAX_ZERO":
        shares = (scores == 0).where(0, (scores - scores.max(-1, keepdim=True)).exp())
        return shares / shares.sum(-1, keepdim=True)
    if transform not in ("NONE", ""):
        raise NotImplementedError(f"the transform {transform} of scores is not supported")
    return scores


@operator("LinearRegressor", domain=_ML)
def linear_regressor(
    x, coefficients, intercepts=None, post_transform: str = "NONE", targets: int = 1
):
    """x @ coefficients + intercepts."""
    weights = Tensor(list(coefficients), dtype=dtypes.float32).reshape(targets, -1).transpose()
    scores = x.cast(dtypes.float32).matmul(weights)
    if intercepts is not None:
        scores = scores + Tensor(list(intercepts), dtype=dtypes.float32)
    return _post(scores, post_transform)


def _labels(place: np.ndarray, numbers, texts):
    if texts:
        return np.array(texts, dtype=object)[place]
    return Tensor(np.array(numbers, dtype=np.int64)[place])


@operator("LinearClassifier", domain=_ML)
def linear_classifier(x, coefficients, intercepts=None, classlabels_ints=None, classlabels_strings=None,
                      multi_class: int = 0, post_transform: str = "NONE"):  # fmt: skip
    """The best class of each row and the scores of all."""
    count = len(classlabels_strings or classlabels_ints or [])
    features = x.shape[-1]
    lines = len(coefficients) // features
    raw = linear_regressor(x, coefficients, intercepts, targets=lines)
    if lines == 1 and count == 2:
        # one score stands for the second class; without a transform its sign decides
        positive = _post(raw, post_transform)
        scores = (1 - positive if post_transform == "LOGISTIC" else -positive).cat(positive, dim=-1)
        place = (raw.numpy().reshape(-1) > 0).astype(np.int64)
    else:
        scores = _post(raw, post_transform)
        place = raw.argmax(-1).numpy()
    return _labels(place, classlabels_ints, classlabels_strings), scores


@operator("ZipMap", domain=_ML)
def zip_map(x: Tensor, classlabels_int64s=None, classlabels_strings=None):
    """The scores alone: the keys of the maps are the class labels of the model."""
    return x


@operator("OneHotEncoder", domain=_ML)
def one_hot_encoder(x, cats_int64s=None, cats_strings=None, zeros: int = 1) -> Tensor:
    """One line of zeros and a one per element."""
    if isinstance(x, Tensor):
        classes = Tensor(list(cats_int64s), dtype=dtypes.int64)
        return (x.cast(dtypes.int64).unsqueeze(-1) == classes).cast(dtypes.float32)
    return Tensor((x[..., None] == np.array(cats_strings, dtype=object)).astype(np.float32))


# *** trees ***
_COMPARE = {
    "BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater, "BRANCH_EQ": np.equal, "BRANCH_NEQ": np.not_equal,
}  # fmt: skip
_MODE_NUMBERS = dict(enumerate(_COMPARE))
_COMBINE = {"SUM": "sum", "AVERAGE": "mean", "MIN": "min", "MAX": "max"}


def _walk(x: np.ndarray, roots, modes, features, thresholds, yes, no, missing_yes, is_leaf,
          members=None) -> np.ndarray:  # fmt: skip
    """The leaf of every tree that each row reaches, as (rows, trees)."""
    at = np.tile(np.asarray(roots, dtype=np.int64), (len(x), 1))
    rows = np.arange(len(x))[:, None]
    for _ in range(len(modes) + 1):
        open_ = ~is_leaf[at]
        if not open_.any():
            return at
        values = x[rows, np.where(open_, features[at], 0)]
        taken = np.zeros(at.shape, dtype=bool)
        for mode in set(modes) & set(_COMPARE):
            here = open_ & (modes[at] == mode)
            taken[here] = _COMPARE[mode](values[here], thresholds[at][here])
        for node, values_of_set in (members or {}).items():
            here = at == node
            taken[here] = np.isin(values[here], values_of_set)
        taken |= open_ & np.isnan(values) & missing_yes[at]
        at = np.where(open_, np.where(taken, yes[at], no[at]), at)
    raise ValueError("the branches of a tree run in a circle")


def _ensemble(x: Tensor, options: dict, prefix: str, count: int) -> np.ndarray:
    """The summed scores (rows, targets) of trees given by node lists."""
    ids = list(zip(options["nodes_treeids"], options["nodes_nodeids"]))
    place = {key: i for i, key in enumerate(ids)}
    modes = np.array(options["nodes_modes"], dtype=object)
    is_leaf = modes == "LEAF"
    follow = {}
    for way in ("true", "false"):
        targets = options[f"nodes_{way}nodeids"]
        follow[way] = np.array([0 if leaf else place[tree, t]
                                for (tree, _), t, leaf in zip(ids, targets, is_leaf)])  # fmt: skip
    reached = {i for way in follow.values() for i, leaf in zip(way, is_leaf) if not leaf}
    roots = [i for i in range(len(ids)) if i not in reached]
    missing = np.array(options.get("nodes_missing_value_tracks_true") or [0] * len(ids), dtype=bool)
    values = options.get("nodes_values", options.get("nodes_values_as_tensor"))
    values = values.numpy() if isinstance(values, Tensor) else np.array(values, dtype=np.float32)
    leaves = _walk(x.numpy(), roots, modes, np.array(options["nodes_featureids"]), values,
                   follow["true"], follow["false"], missing, is_leaf)  # fmt: skip
    weights = np.zeros((len(ids), count), dtype=np.float64)
    for tree, node, target, weight in zip(
        options[f"{prefix}_treeids"], options[f"{prefix}_nodeids"], options[f"{prefix}_ids"],
        options[f"{prefix}_weights"],
    ):  # fmt: skip
        weights[place[tree, node], target] += weight
    how = _COMBINE[options.get("aggregate_function", "SUM")]
    return getattr(weights[leaves], how)(axis=1)


@operator("TreeEnsembleRegressor", domain=_ML)
def tree_ensemble_regressor(x: Tensor, n_targets: int = 1, base_values=None, post_transform: str = "NONE",
                            **options) -> Tensor:  # fmt: skip
    """The combined scores of the leaves that each row reaches."""
    scores = _ensemble(x, options, "target", n_targets) + np.array(base_values or [0.0])
    return _post(Tensor(scores.astype(np.float32)), post_transform)


@operator("TreeEnsembleClassifier", domain=_ML)
def tree_ensemble_classifier(x: Tensor, base_values=None, classlabels_int64s=None, classlabels_strings=None,
                             post_transform: str = "NONE", **options):  # fmt: skip
    """The best class of each row and the scores of all."""
    count = len(classlabels_strings or classlabels_int64s)
    raw = _ensemble(x, options, "class", count)
    if base_values is not None:
        raw = raw + np.array(base_values)
    used = set(options["class_ids"])
    if count == 2 and len(used) == 1:
        # one column stands for the second class
        positive = raw[:, max(used)] if max(used) else raw[:, 0]
        place = (positive > (0 if post_transform == "LOGISTIC" else 0.5)).astype(np.int64)
        score = _post(Tensor(positive.astype(np.float32)).reshape(-1, 1), post_transform)
        return _labels(place, classlabels_int64s, classlabels_strings), (1 - score).cat(
            score, dim=-1
        )
    scores = _post(Tensor(raw.astype(np.float32)), post_transform)
    return _labels(raw.argmax(-1), classlabels_int64s, classlabels_strings), scores


def _numbers(value) -> np.ndarray:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


@operator("TreeEnsemble", domain=_ML)
def tree_ensemble(x: Tensor, n_targets: int = 1, aggregate_function: int = 1, post_transform: int = 0,
                  **options) -> Tensor:  # fmt: skip
    """Trees whose leaves lie in a list of their own, behind that of the branches."""
    modes = _numbers(options["nodes_modes"]).astype(np.int64)
    targets, weights = _numbers(options["leaf_targetids"]), _numbers(options["leaf_weights"])
    inner, leaves = len(modes), len(targets)

    def padded(values, kind) -> np.ndarray:
        return np.concatenate([np.asarray(values, dtype=kind), np.zeros(leaves, dtype=kind)])

    def followed(way: str) -> np.ndarray:
        places = np.asarray(options[f"nodes_{way}nodeids"])
        to_leaf = np.asarray(options[f"nodes_{way}leafs"], dtype=bool)
        return padded(np.where(to_leaf, places + inner, places), np.int64)

    names = np.array(
        [_MODE_NUMBERS.get(m, "BRANCH_MEMBER") for m in modes] + ["LEAF"] * leaves, dtype=object
    )
    members = dict(zip(np.flatnonzero(names == "BRANCH_MEMBER"), _member_sets(options)))
    missing = padded(options.get("nodes_missing_value_tracks_true") or [0] * inner, bool)
    reached = _walk(
        x.numpy(), options["tree_roots"], names, padded(options["nodes_featureids"], np.int64),
        padded(_numbers(options["nodes_splits"]), np.float64), followed("true"), followed("false"),
        missing, names == "LEAF", members,
    )  # fmt: skip
    table = np.zeros((inner + leaves, n_targets))
    table[inner + np.arange(leaves), targets] = weights
    how = ("mean", "sum", "min", "max")[aggregate_function]
    scores = getattr(table[reached], how)(axis=1)
    transform = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[post_transform]
    return _post(Tensor(scores).cast(x.dtype), transform)


def _member_sets(options) -> list[np.ndarray]:
    """The sets of values of membership tests, which lie behind each other with NaN between."""
    if "membership_values" not in options:
        return []
    values = _numbers(options["membership_values"]).reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    return [part[~np.isnan(part)] for part in np.split(values, ends)]

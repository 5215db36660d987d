"""Classical models of the ai.onnx.ml domain: scaling, linear models, trees."""

from __future__ import annotations

from typing import Any

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
        size = x.max(-1, keepdim=True)
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


@operator("FeatureVectorizer", domain=_ML)
def feature_vectorizer(*parts: Tensor, inputdimensions=None) -> Tensor:
    """The features of all inputs side by side, as float32."""
    rows = [p.cast(dtypes.float32).reshape(p.shape[0] if p.ndim > 1 else 1, -1) for p in parts]
    return rows[0].cat(*rows[1:], dim=1) if len(rows) > 1 else rows[0]


@operator("CategoryMapper", domain=_ML)
def category_mapper(
    x, cats_int64s, cats_strings, default_int64: int = -1, default_string: str = "_Unused"
):
    """Numbers for texts or texts for numbers, by two lists."""
    if isinstance(x, Tensor):
        names = dict(zip(cats_int64s, cats_strings))
        given: Any = x.flatten().tolist()
        flat = [names.get(v, default_string) for v in given]
        return np.array(flat, dtype=object).reshape(x.shape)
    numbers = dict(zip(cats_strings, cats_int64s))
    flat = [numbers.get(str(v), default_int64) for v in x.reshape(-1)]
    return Tensor(np.array(flat, dtype=np.int64).reshape(x.shape))


# *** support vectors ***
def _kernel(x: Tensor, vectors: Tensor, kind: str, parameters) -> Tensor:
    """How alike the rows of x and the vectors are."""
    gamma, shift, degree = parameters or (0.0, 0.0, 0.0)
    products = x.matmul(vectors.transpose())
    if kind == "POLY":
        return (products * gamma + shift) ** degree
    if kind == "SIGMOID":
        return (products * gamma + shift).tanh()
    if kind == "RBF":
        lengths = (x * x).sum(1, keepdim=True) + (vectors * vectors).sum(1)
        return (-gamma * (lengths - products * 2)).exp()
    return products


def _matrix(values, rows: int) -> Tensor:
    return Tensor(list(values), dtype=dtypes.float32).reshape(rows, -1)


@operator("SVMRegressor", domain=_ML)
def svm_regressor(x: Tensor, coefficients, rho, kernel_params=None, kernel_type: str = "LINEAR",
                  n_supports: int = 0, one_class: int = 0, post_transform: str = "NONE",
                  support_vectors=None) -> Tensor:  # fmt: skip
    """A weighted sum of likenesses to the support vectors."""
    x = x.cast(dtypes.float32)
    if n_supports:
        likeness = _kernel(x, _matrix(support_vectors, n_supports), kernel_type, kernel_params)
    else:
        likeness = x
    scores = likeness.matmul(_matrix(coefficients, 1).transpose()) + rho[0]
    scores = (scores > 0).where(1.0, -1.0) if one_class else scores
    return _post(scores, post_transform)


def _votes(likeness: Tensor, coefficients: Tensor, rho, counts) -> tuple[list[Tensor], np.ndarray]:
    """The score of each pair of classes, and how many pairs each class wins by row."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    spans = [slice(int(a), int(b)) for a, b in zip(starts, starts[1:])]
    scores: list[Tensor] = []
    votes = np.zeros((likeness.shape[0], len(counts)))
    for i in range(len(counts)):
        for j in range(i + 1, len(counts)):
            # the weights of a vector against the other classes, without its own
            total = (likeness[:, spans[i]] * coefficients[j - 1, spans[i]]).sum(1)
            total = (
                total
                + (likeness[:, spans[j]] * coefficients[i, spans[j]]).sum(1)
                + rho[len(scores)]
            )
            won = total.numpy() > 0
            votes[:, i] += won
            votes[:, j] += ~won
            scores.append(total)
    return scores, votes


@operator("SVMClassifier", domain=_ML)
def svm_classifier(x: Tensor, coefficients, rho, classlabels_ints=None, classlabels_strings=None,
                   kernel_params=None, kernel_type: str = "LINEAR", post_transform: str = "NONE",
                   prob_a=None, prob_b=None, support_vectors=None, vectors_per_class=None):  # fmt: skip
    """The class of each row and its scores: of pairs of classes, or of classes where it is linear.

    Raises NotImplementedError for probabilities, which need an iteration of their own.
    """
    if prob_a:
        raise NotImplementedError(
            "SVMClassifier with probabilities (prob_a, prob_b) is not supported"
        )
    count, x = len(classlabels_ints or classlabels_strings), x.cast(dtypes.float32)
    if not vectors_per_class:
        lines = _matrix(coefficients, count)
        scores = x.matmul(lines.transpose()) + Tensor(list(rho), dtype=dtypes.float32)
        place = scores.argmax(1).numpy()
        return _labels(place, classlabels_ints, classlabels_strings), _post(scores, post_transform)
    vectors = _matrix(support_vectors, sum(vectors_per_class))
    likeness = _kernel(x, vectors, kernel_type, kernel_params)
    pairs, votes = _votes(likeness, _matrix(coefficients, count - 1), rho, vectors_per_class)
    scores = pairs[0].stack(*pairs[1:], dim=1)
    if count == 2:
        scores = (-scores).cat(scores, dim=1)
    place = votes.argmax(1)
    return _labels(place, classlabels_ints, classlabels_strings), _post(scores, post_transform)


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
        positive = raw[:, max(used)].astype(np.float32)
        # shares of a whole where no weight is negative, else distances from the border
        shares = all(weight >= 0 for weight in options["class_weights"])
        place = (positive > (0.5 if shares else 0)).astype(np.int64)
        score = _post(Tensor(positive).reshape(-1, 1), post_transform)
        other = 1 - score if shares or post_transform == "LOGISTIC" else -score
        return _labels(place, classlabels_int64s, classlabels_strings), other.cat(score, dim=-1)
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

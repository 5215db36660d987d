"""Parameters of models: finding them, saving them, loading them.

A model is any object: its tensors are found in attributes, lists, tuples and dictionaries, and named
by the path to them ("layers.0.weight").
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.engine.jit import TinyJit
from tinygrad.helpers import CI, DEBUG, GlobalCounters, tqdm
from tinygrad.nn.formats.archives import tar_extract, zip_extract
from tinygrad.nn.formats.gguf import ggml_data_to_tensor, gguf_load
from tinygrad.nn.formats.reading import TensorIO, accept_filename
from tinygrad.nn.formats.safetensors import safe_load, safe_load_metadata, safe_save
from tinygrad.nn.formats.torch_pickle import torch_load
from tinygrad.tensor import Tensor

__all__ = [
    "CI", "OrderedDict", "TensorIO", "accept_filename", "get_parameters", "get_state_dict",
    "ggml_data_to_tensor", "gguf_load", "load_state_dict", "safe_load", "safe_load_metadata",
    "safe_save", "tar_extract", "torch_load", "zip_extract",
]  # fmt: skip


def _children(obj: Any) -> list[tuple[str, Any]]:
    """The named parts of a container or object, nothing for a leaf."""
    if hasattr(obj, "_asdict"):
        return list(obj._asdict().items())
    if isinstance(obj, dict):
        return [(str(key), value) for key, value in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(str(i), value) for i, value in enumerate(obj)]
    return list(vars(obj).items()) if hasattr(obj, "__dict__") else []


def get_state_dict(obj, prefix: str = "", tensor_type=Tensor) -> dict[str, Tensor]:
    """All tensors reachable from `obj`, by dotted name, in the order they are found.

    >>> sorted(nn.state.get_state_dict(nn.Linear(2, 3)))
    ['bias', 'weight']
    """
    found: dict[str, Tensor] = {}
    # a stack instead of recursion; entries are reversed so that they are taken in order
    pending: list[tuple[str, Any, tuple[int, ...]]] = [(prefix.strip("."), obj, ())]
    while pending:
        name, part, above = pending.pop()
        if isinstance(part, tensor_type):
            found[name] = part
            continue
        # what a capture holds (results, buffers, graphs) is no state of the model
        if id(part) in above or isinstance(part, (type, TinyJit)):
            continue
        dot = f"{name}." if name else ""
        inner = [(f"{dot}{key}", value, (*above, id(part))) for key, value in _children(part)]
        pending += reversed(inner)
    return found


def get_parameters(obj) -> list[Tensor]:
    """All tensors reachable from `obj`.

    >>> len(nn.state.get_parameters(nn.Linear(2, 3)))
    2
    """
    return list(get_state_dict(obj).values())


def _placed(value: Tensor, target: Tensor) -> Tensor:
    """`value` on the devices of `target`, unless it is laid out over several devices already."""
    if isinstance(target.device, tuple):
        return (
            value
            if isinstance(value.device, tuple)
            else value.shard(target.device, target.uop.axis)
        )
    return value.to(target.device)


def load_state_dict(
    model, state_dict: dict[str, Tensor], strict=True, verbose=True, consume=False, realize=True
) -> list[Tensor]:
    """Gives each tensor of `model` the values of the same name; returns the tensors loaded.

    The values are copied: training `model` leaves `state_dict`, and a model that it came from, as
    they are. `consume` removes what is loaded from `state_dict` and takes over its memory instead.
    `strict` raises KeyError for a name that is missing. Raises ValueError for a shape that differs.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = nn.state.load_state_dict(layer, {"weight": Tensor([[5.0]])}, verbose=False)
    >>> layer.weight.tolist()
    [[5.0]]
    """
    wanted = get_state_dict(model)
    before = GlobalCounters.mem_used
    if DEBUG >= 1 and len(state_dict) > len(wanted):
        print("WARNING: unused weights in state_dict", sorted(state_dict.keys() - wanted.keys()))
    loaded = []
    bar = tqdm(list(wanted.items()), disable=CI or not verbose)
    for name, target in bar:
        if verbose:
            used = (GlobalCounters.mem_used - before) / 1e9
            bar.set_description(f"loading weights, {used:6.2f} GB, {name:40}")
        if name not in state_dict:
            if strict:
                raise KeyError(f"{name} is not in the state dict, which has {sorted(state_dict)}")
            if DEBUG >= 1:
                print(f"WARNING: not loading {name}")
            continue
        value = state_dict[name]
        if target.shape != value.shape:
            # a scalar may be stored as one element
            if {target.shape, value.shape} != {(), (1,)}:
                raise ValueError(
                    f"Shape mismatch in layer `{name}`: Expected shape {target.shape}, "
                    f"but found {value.shape} in state dict."
                )
            value = value.reshape(target.shape)
        _load_one(target, _placed(value, target), keep=not consume)
        if realize:
            target.realize()
        loaded.append(target)
        if consume:
            del state_dict[name]
    return loaded


def _load_one(target: Tensor, value: Tensor, keep: bool) -> None:
    """Makes `target` the tensor `value`; `keep` says that the memory of `value` stays its own."""
    value = value.cast(target.dtype) if dtypes.is_float(value.dtype) else value
    if keep and value is not target and value.uop.is_realized:
        value = value.clone()
    target.uop = value.uop
    if not keep and value.device == target.device and value.dtype is target.dtype:
        target.replace(value)

"""Runs the graph of a model: finds each operator's function, gives it tensors, names its results.

A value is a Tensor, a `Known` (elements known on the host), a list (a sequence), an object array (text)
or None (left out). Only control flow and operators whose output shape depends on data wait for values.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections import ChainMap
from typing import Any

import numpy as np

from tinygrad.device import Device
from tinygrad.dtype import DType, dtypes
from tinygrad.helpers import DEBUG, ContextVar
from tinygrad.nn.onnx_parts import host, narrow, registry
from tinygrad.nn.onnx_parts.host import Known
from tinygrad.nn.onnx_parts.kinds import (
    Domain,
    OnnxNode,
    OnnxValue,
    to_python_const,
    usable_dtype,
)
from tinygrad.nn.onnx_parts.model import (
    AttributeReference,
    Function,
    Graph,
    OnnxPBParser,
    Weight,
)
from tinygrad.nn.onnx_parts.narrow import Narrow
from tinygrad.nn.onnx_parts.order import nested_graphs, ordered, ordered_function
from tinygrad.tensor import Tensor

_MAX_CALLS = 64
# operators that move elements of the first input, whatever their type
_MOVES = frozenset(
    "Identity Reshape Flatten Squeeze Unsqueeze Transpose Pad TensorScatter Slice Gather Expand".split()
)


@dataclasses.dataclass(frozen=True)
class Context:
    """What operators with a graph as attribute see: they run it within the scope of their node."""

    runner: OnnxRunner
    scope: ChainMap[Any, Any]
    depth: int

    def run(self, graph: Graph, inputs: list[Any]) -> list[Any]:
        """The outputs of `graph` for `inputs`, in the order it declares them."""
        own: dict[Any, Any] = dict(zip(graph.inputs, inputs))
        return self.runner._run_graph(graph, ChainMap(own, self.scope), self.depth + 1)


def wrapped(value: Any) -> Any:
    """An array of numbers as a Known; everything else as it is."""
    return Known(value) if isinstance(value, np.ndarray) and value.dtype != object else value


def as_tensor(value: Any) -> Any:
    """A Known as a tensor, also within sequences."""
    if isinstance(value, (Known, Narrow)):
        return value.tensor
    return [as_tensor(part) for part in value] if isinstance(value, list) else value


class OnnxRunner:
    """A model that can be called: `OnnxRunner("model.onnx")({"input": x})["output"]`.

    `model_path` is the path of the file, or its bytes as a 1-d uint8 tensor (or bytes). Weights are read
    when the model is first called. Raises NotImplementedError that names all operators that are not
    supported, ValueError or EOFError for a damaged file.
    """

    def __init__(self, model_path: Tensor | str | pathlib.Path):
        source = (
            Tensor(bytes(model_path)) if isinstance(model_path, (bytes, bytearray)) else model_path
        )
        model = OnnxPBParser(source, load_external_data=True).parse()
        self._graph: Graph = model["graph"]
        self._functions: dict[Any, Function] = model["functions"]
        self.opset_versions = model["opset_import"]
        known = self._graph.initializers
        self.graph_inputs = {k: v for k, v in self._graph.inputs.items() if k not in known}
        self.graph_outputs = self._graph.outputs
        self.graph_nodes = self._graph.nodes
        self.variable_dims: dict[str, int] = {}
        self._device: str | None = None
        self._debug = 0
        self._constants: dict[int, tuple[Any, Any]] = {}
        self._refuse_unknown()
        self._order()

    # *** loading ***
    def _refuse_unknown(self) -> None:
        """Raises NotImplementedError with the names of all operators that nothing computes."""
        unknown = set()
        pending = [self.graph_nodes, *(f.nodes for f in self._functions.values())]
        while pending:
            for node in pending.pop():
                domain, version = node.opset_id
                if (domain, node.op) not in self._functions and not registry.find(
                    domain, node.op, version
                ):
                    prefix = "" if domain is Domain.ONNX else f"{getattr(domain, 'value', domain)}."
                    unknown.add(f"{prefix}{node.op}")
                pending += [graph.nodes for graph in nested_graphs(node)]
        if unknown:
            raise NotImplementedError(
                f"the model has operators that are not supported: {sorted(unknown)}"
            )

    def _order(self) -> None:
        """Sorts nodes by what they need. Raises ValueError for a model that cannot be run."""
        self._graph = ordered(self._graph)
        self.graph_nodes = self._graph.nodes
        self._functions = {
            key: ordered_function(function, key[1]) for key, function in self._functions.items()
        }

    def _constant(self, value: Any) -> Any:
        """A constant of the file as a value, made once: weights are read here."""
        entry = self._constants.get(id(value))
        if entry is None:
            made = value.tensor() if isinstance(value, Weight) else wrapped(value)
            if isinstance(made, Tensor) and self._device is not None:
                made = made.to(self._device)
            entry = self._constants[id(value)] = (value, made)
        return entry[1]

    @property
    def graph_values(self) -> dict[str, Any]:
        """The constants of the graph by name, as tensors (arrays where they are text)."""
        constants = self._graph.initializers
        return {name: as_tensor(self._constant(value)) for name, value in constants.items()}

    def to(self, device: str | None):
        """Moves the weights to `device` (the default one if None); returns the runner."""
        self._device = Device.canonicalize(device)
        for key, (source, value) in self._constants.items():
            if isinstance(value, Tensor):
                value = value.to(self._device)
            self._constants[key] = (source, value)
        return self

    def get_empty_input_data(
        self, device: str | None = None, dtype: DType | None = None
    ) -> dict[str, Tensor]:
        """Uninitialized inputs of the declared shapes, an axis of unknown size having one element."""
        made = {}
        for name, value in self.graph_inputs.items():
            shape = tuple(n if isinstance(n, int) and n > 0 else 1 for n in value.shape)
            made[name] = Tensor.empty(*shape, device=device, dtype=dtype or value.dtype)
        return made

    # *** inputs ***
    def _tensor_input(self, name: str, value: Any, spec: OnnxValue) -> Any:
        if spec.dtype is dtypes.void:
            return value if isinstance(value, Tensor) else np.asarray(value, dtype=object)
        if (kind := self._graph.narrow_inputs.get(name)) is not None:
            return Narrow(kind, self._narrow_input(value, kind))
        wanted = usable_dtype(spec.dtype, f"input {name}")
        if not isinstance(value, Tensor):
            array = np.asarray(value)
            value = Tensor(array, device=self._device)
            return value if value.dtype is wanted else value.cast(wanted)
        if value.dtype is spec.dtype:
            return value.cast(wanted)
        if value.dtype is not wanted:
            raise TypeError(
                f"input {name!r} has {value.dtype}, the model expects {wanted}: cast it"
            )
        return value

    def _narrow_input(self, value: Any, kind: int) -> Tensor:
        """Values of a type that tensors lack, in the one that holds them."""
        wide = narrow.wide_dtype(kind)
        if not isinstance(value, Tensor):
            array = np.asarray(value)
            words = np.int8 if narrow.INTEGERS.get(kind) is dtypes.int8 else np.uint8
            value = Tensor(array.astype(words if kind in narrow.INTEGERS else np.float32))
        return value if value.dtype is wide else value.cast(wide)

    def _check_shape(self, name: str, value: Any, spec: OnnxValue, sizes: dict[str, int]) -> None:
        """Raises ValueError where the shape contradicts the model or another input."""
        if not spec.shape or spec.is_sequence or value is None:
            return
        value = as_tensor(value)
        if len(value.shape) != len(spec.shape):
            raise ValueError(
                f"input {name!r} has shape {value.shape}, the model expects {spec.shape}"
            )
        for axis, (size, want) in enumerate(zip(value.shape, spec.shape)):
            if isinstance(want, str):
                # exporters write "?" and the like for axes that have nothing in common
                want = sizes.setdefault(want, size) if want.isidentifier() else size
            if want >= 0 and size != want:
                raise ValueError(
                    f"input {name!r} has {size} elements along axis {axis}, expected {want}: "
                    f"shape {value.shape}, the model says {spec.shape}"
                )

    def _inputs(self, given: dict[str, Any]) -> dict[str, Any]:
        bound: dict[str, Any] = {}
        sizes: dict[str, int] = {}
        for name, spec in self._graph.inputs.items():
            if name not in given:
                if spec.is_optional:
                    bound[name] = None
                elif name not in self._graph.initializers:
                    raise RuntimeError(
                        f"input {name!r} is missing: expected {list(self.graph_inputs)}, got {list(given)}"
                    )
                continue
            value = given[name]
            if spec.is_sequence and value is not None:
                if not isinstance(value, (list, tuple)):
                    raise TypeError(
                        f"input {name!r} is a sequence: expected a list, got {type(value)}"
                    )
                bound[name] = [self._tensor_input(name, part, spec) for part in value]
            elif value is None and spec.is_optional:
                bound[name] = None
            else:
                bound[name] = self._tensor_input(name, value, spec)
                self._check_shape(name, bound[name], spec, sizes)
        self.variable_dims = sizes
        return bound

    # *** running ***
    def __call__(self, inputs: dict[str, Any], debug: int | ContextVar = DEBUG) -> dict[str, Any]:
        """The outputs by name for inputs by name (tensors, arrays, numbers, lists for sequences).

        `debug` 1 prints each node, 2 also the shapes that go in and out. Raises RuntimeError for a missing
        input, TypeError for a dtype and ValueError for a shape that the model does not accept.
        """
        self._debug = int(debug)
        scope = ChainMap(self._inputs(inputs), {})
        values = self._run_graph(self._graph, scope, 0)
        return {name: as_tensor(value) for name, value in zip(self.graph_outputs, values)}

    def _run_graph(self, graph: Graph, scope: ChainMap, depth: int) -> list[Any]:
        if depth > _MAX_CALLS:
            raise ValueError(
                f"graphs and functions of the model call each other more than {_MAX_CALLS} deep"
            )
        for name, value in graph.initializers.items():
            if name not in scope.maps[0]:
                scope[name] = self._constant(value)
        for number, node in enumerate(graph.nodes):
            self._run_node(number, node, scope, depth)
        for name in graph.outputs:
            if name not in scope:
                raise ValueError(f"nothing in the model computes its output {name!r}")
        return [scope[name] for name in graph.outputs]

    def _run_node(self, number: int, node: OnnxNode, scope: ChainMap, depth: int) -> None:
        missing = [name for name in node.inputs if name and name not in scope]
        if missing:
            raise ValueError(
                f"node {number} ({node.op}) needs {missing}, which nothing before it computes"
            )
        inputs = [scope[name] if name else None for name in node.inputs]
        options = {
            name: self._option(value, scope)
            for name, value in node.opts.items()
            if name not in registry.IGNORED_ATTRIBUTES
        }
        results = self._apply(node, inputs, options, scope, depth)
        if self._debug >= 1:
            print(f"{'  ' * depth}{number}: {node.op} {list(node.inputs)} -> {list(node.outputs)}")
            if self._debug >= 2:
                print(f"{'  ' * depth}   {_summary(inputs)} {options} -> {_summary(results)}")
        for name, value in zip(node.outputs, results):
            if name:
                scope[name] = wrapped(value)

    def _option(self, value: Any, scope: ChainMap[Any, Any]) -> Any:
        if isinstance(value, AttributeReference):
            return scope.get(("attribute", value.name))
        if isinstance(value, (Weight, np.ndarray)):
            return self._constant(value)
        return value

    def _apply(self, node: OnnxNode, inputs, options, scope: ChainMap, depth: int) -> list[Any]:
        domain, version = node.opset_id
        function = self._functions.get((domain, node.op))
        if function is not None:
            return self._call_function(function, inputs, options, depth)
        if domain is Domain.ONNX and all(v is None or isinstance(v, Known) for v in inputs):
            result = host.compute(node.op, inputs, options) if node.op in host.OPERATORS else None
            if result is not None:
                return [result]
        entry = registry.find(domain, node.op, version)
        assert entry is not None, "the loader refuses unknown operators"
        if node.op == "Constant":
            return (
                [next(v for v in options.values() if v is not None)]
                if _is_value(options)
                else [entry.function(**options)]
            )
        options = {k: as_tensor(v) for k, v in options.items() if v is not None}
        return self._call_operator(entry, node, inputs, options, scope, depth)

    def _call_operator(
        self, entry, node: OnnxNode, inputs, options, scope, depth: int
    ) -> list[Any]:
        arguments = []
        for i, value in enumerate(inputs):
            if i in entry.constants:
                plain = value.array if isinstance(value, Known) else value
                arguments.append(to_python_const(plain, node.op, i))
            elif i in entry.hosted or (entry.wants_context and isinstance(value, Narrow)):
                arguments.append(value)
            else:
                arguments.append(as_tensor(value))
        types = [value.kind if isinstance(value, Narrow) else 0 for value in inputs]
        if entry.wants_kinds:
            options["kinds"] = types
        if entry.wants_count:
            options["output_count"] = len(node.outputs)
        if entry.wants_context:
            options["context"] = Context(self, scope, depth)
        try:
            result = entry.function(*arguments, **options)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise ValueError(
                f"{node.op} (operator set {node.opset_id.version}) with {len(inputs)} inputs and the "
                f"attributes {sorted(node.opts)} is not supported: {error}"
            ) from error
        if types and types[0] and node.op in _MOVES:
            return [Narrow(types[0], result)]
        return list(result) if isinstance(result, tuple) else [result]

    def _call_function(self, function: Function, inputs, options, depth: int) -> list[Any]:
        own: dict[Any, Any] = dict(zip(function.inputs, inputs))
        scope = ChainMap(own, {})
        for name in function.inputs[len(inputs) :]:
            scope[name] = None
        for name, default in function.defaults.items():
            scope[("attribute", name)] = options.get(name, default)
        body = Graph(function.nodes, {}, function.outputs, {})
        return self._run_graph(body, scope, depth + 1)


def _is_value(options: dict[str, Any]) -> bool:
    """Whether a Constant holds a tensor that needs no conversion."""
    return set(options) <= {"value", "sparse_value"}


def _summary(values) -> list[Any]:
    return [
        v.shape if isinstance(v, Tensor) else v.array.tolist() if isinstance(v, Known) else v
        for v in values
    ]

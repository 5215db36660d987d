"""What a call of a jitted function passes in, and what it hands out.

In: the arguments of one call. Out: a `CallInputs`: the buffers to put into the captured kernels, the form those buffers are
seen in, and the values of variables. Two calls may use one capture exactly when their forms are equal. `Outputs` does the
other half: the tensors of a captured result, rebuilt for each call.

Tensors are found as arguments, and inside dicts, tuples and dataclasses. A Tensor is known by its interface (a `uop` and
`realize`), since its class belongs to a higher layer.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tinygrad.device import Buffer, MultiBuffer
from tinygrad.dtype import DType
from tinygrad.engine import sharing
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat, buffers


class JitError(RuntimeError, AssertionError):
    """A function can't be captured, or a call does not fit what was captured; the message says what to do."""


# adjacent reshapes are one reshape, so that equal views are one node however they were written
mop_cleanup = PatternMatcher(
    [
        (
            UPat(Ops.RESHAPE, src=(UPat(Ops.RESHAPE, name="inner"), UPat()), name="outer"),
            lambda inner, outer: outer.replace(src=(inner.src[0], *outer.src[1:])),
        )
    ]
)


# a view of a stand-in for a buffer, its variables, dtype, device
Form = tuple[UOp, tuple[UOp, ...], DType, Any]
_CONSTANT_SHAPES = frozenset({Ops.VCONST, Ops.CONST})


def is_tensor(value: Any) -> bool:
    """Whether `value` is a Tensor (or behaves as one)."""
    return isinstance(getattr(value, "uop", None), UOp) and hasattr(value, "realize")


def contents(value: Any) -> list[tuple[str, Any]] | None:
    """(label, item) for what a container holds, or None for what is no container that inputs are looked for in."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, tuple):
        return [(f"[{place}]", item) for place, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def tensors_in(value: Any) -> list[Any]:
    """All tensors in a result, each once: in containers of any kind and in the attributes of objects."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    pending = [value]
    while pending:
        at = pending.pop()
        if id(at) in seen or isinstance(
            at, (type, types.ModuleType, types.FunctionType, UOp, Buffer)
        ):
            continue
        seen.add(id(at))
        if is_tensor(at):
            found[id(at)] = at
        elif isinstance(at, dict):
            pending.extend(reversed(list(at.values())))
        elif isinstance(at, (list, tuple, set, frozenset)):
            pending.extend(reversed(list(at)))
        elif hasattr(at, "__dict__"):
            pending.extend(reversed(list(vars(at).values())))
    return list(found.values())


class ArgumentNames:
    """Gives each argument of a call one name, whether it is passed by place or by keyword."""

    def __init__(self, fxn: Callable | None):
        self.parameters: list[str] | None = None
        try:
            signature = inspect.signature(fxn) if fxn is not None else None
        except (TypeError, ValueError):
            signature = None
        if signature is not None:
            kinds = [p.kind for p in signature.parameters.values()]
            plain = all(
                k in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
                for k in kinds
            )
            self.parameters = list(signature.parameters) if plain else self._leading(signature)

    @staticmethod
    def _leading(signature: inspect.Signature) -> list[str]:
        usual = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
        return [name for name, p in signature.parameters.items() if p.kind in usual]

    def of(self, args: tuple, kwargs: dict[str, Any]) -> list[tuple[int | str, Any]]:
        """(name, value), positional ones first, then by name."""
        known = self.parameters
        if known is None:
            placed: list[tuple[int | str, Any]] = list(enumerate(args))
        else:
            placed = list(zip(known, args))
            placed += [(place, args[place]) for place in range(len(known), len(args))]
        # by keyword or by place, a parameter comes where it stands in the signature
        rank = {name: place for place, name in enumerate(known or ())}
        named = sorted(kwargs.items(), key=lambda item: (rank.get(item[0], len(rank)), item[0]))
        return placed + named


@dataclass
class CallInputs:
    """One call: its tensors' buffers and everything that decides whether a capture fits.

    `forms`: for each tensor (view of a stand-in buffer, variables, dtype, device). `fixed`: tensors without a buffer of their
    own, constants above all, by their node; a change of one needs a new capture. `plain`: arguments that are no tensors.
    """

    names: list[int | str] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    nodes: list[UOp] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    fixed: list[tuple[int | str, UOp]] = field(default_factory=list)
    plain: list[tuple[int | str, Any]] = field(default_factory=list)
    var_vals: dict[str, int] = field(default_factory=dict)


def gather_inputs(named: list[tuple[int | str, Any]]) -> CallInputs:
    """Finds, realizes and describes the inputs of a call.

    Raises JitError where two arguments share a buffer, or a variable has two values.
    """
    call = CallInputs()
    found: list[tuple[int | str, Any]] = []
    for name, value in named:
        _find(name, value, call, found)
    pending = [t for _, t in found if not _has_memory(t)]
    if pending:
        pending[0].realize(*pending[1:])
    owner: dict[Buffer, int | str] = {}
    for name, tensor in found:
        _describe(name, tensor, call, owner)
    return call


def _find(name: int | str, value: Any, call: CallInputs, found: list, nested: bool = False) -> None:
    if is_tensor(value):
        found.append((name, value))
    elif isinstance(value, UOp):
        call.plain.append((name, _unbind(value, call)))
    elif (inside := contents(value)) is not None or (nested and isinstance(value, list)):
        # drop-in: a list that is an argument itself is not looked into
        if inside is None:
            inside = [(f"[{place}]", item) for place, item in enumerate(value)]
        for label, item in inside:
            _find(f"{name}{label}", item, call, found, True)
    else:
        call.plain.append((name, value))


def _unbind(value: UOp, call: CallInputs) -> UOp:
    """The node without the values of its variables, which go into the call's."""
    bare, values = value.unbind_all()
    for variable, number in values.items():
        if call.var_vals.setdefault(variable.expr, number) != number:
            raise JitError(
                f"variable {variable.expr} has the values {call.var_vals[variable.expr]} and {number} in one call; "
                "use two variables"
            )
    return bare


def _has_memory(tensor: Any) -> bool:
    base = tensor.uop
    if base.op is not Ops.BUFFER:
        base = base.src[0] if base.op is Ops.RESHAPE else base
        base = base.base
    return base.op is Ops.BUFFER and base.realized is not None


def memory_of(node: UOp) -> frozenset[Buffer]:
    """The bases of the buffers that a view looks into; none for what has no memory of its own."""
    held = [u.realized for u in _base_nodes(node)]
    return frozenset(b.base for h in held for b in getattr(h, "bufs", [h]))


def bases_of(node: UOp) -> set[Buffer]:
    """The memory a node looks into."""
    found: set[Buffer] = set()
    for u in (node.base,) if node.base.op is Ops.BUFFER else node.toposort():
        if u.op is Ops.BUFFER and (held := u.realized) is not None:
            found.update(b.base for b in getattr(held, "bufs", [held]))
    return found


def is_pending(node: UOp) -> bool:
    """Whether a node is yet to be computed: neither memory nor a constant."""
    return node.base.op not in (Ops.BUFFER, Ops.CONST) and not memory_of(node)


def _base_nodes(node: UOp) -> list[UOp]:
    """The buffers that a view looks into; none for constants and for memory that was never written."""
    if node.op is Ops.MULTI:
        node = node.src[0]
    base = node.base
    if base.op in (Ops.MSTACK, Ops.MSELECT):
        bases = [s.base for s in base.src]
    else:
        bases = [base]
    return bases if all(b.op is Ops.BUFFER and b.realized is not None for b in bases) else []


@functools.lru_cache(maxsize=4096)
def _plain_form(size: int, dtype: DType, device: UOp, shape: UOp | None) -> Form:
    """The form of a whole buffer, reshaped or not."""
    node = UOp(Ops.BUFFER, dtype, (UOp(Ops.LUNIQUE, arg=-1), device), size)
    if shape is not None:
        node = UOp(Ops.RESHAPE, dtype, (node, shape))
    return node, (), dtype, node.device


def _describe_plain(name: int | str, tensor: Any, call: CallInputs, owner: dict) -> bool:
    """Describes a tensor that is all of one buffer, the usual one; False for any other."""
    node = base = tensor.uop
    shape = None
    if node.op is Ops.RESHAPE:
        base, shape = node.src
        if shape.op not in _CONSTANT_SHAPES:
            return False
    if base.op is not Ops.BUFFER:
        return False
    held = base.realized
    if type(held) is not Buffer or held in owner:
        return False
    owner[held] = name
    call.names.append(name)
    call.tensors.append(tensor)
    call.forms.append(_plain_form(base.arg, base.dtype, base.src[1], shape))
    call.buffers.append(held)
    call.nodes.append(base)
    return True


def _describe(
    name: int | str, tensor: Any, call: CallInputs, owner: dict[Buffer, int | str]
) -> None:
    if _describe_plain(name, tensor, call, owner):
        return
    node = tensor.uop
    bases = _base_nodes(node)
    stand_ins = {u: UOp(Ops.LUNIQUE, arg=-1 - i) for i, u in enumerate(_unique_nodes(node))}
    form = _unbind(node.substitute(stand_ins), call)
    while (joined := mop_cleanup.rewrite(form)) is not None:
        form = joined
    if not bases:
        call.fixed.append((name, form))
        return
    call.names.append(name)
    call.tensors.append(tensor)
    variables = tuple(sorted(form.vars(), key=lambda v: v.expr)) if call.var_vals else ()
    call.forms.append((form, variables, node.dtype, node.device))
    for base in bases:
        held = base.realized
        for buf in held.bufs if isinstance(held, MultiBuffer) else [held]:
            if (other := owner.get(buf)) is not None:
                raise JitError(
                    f"duplicate inputs to JIT: arguments {other} and {name} share one buffer; "
                    f"pass {name}.clone().realize() instead"
                )
            owner[buf] = name
            call.buffers.append(buf)
        call.nodes.append(base)


def _unique_nodes(node: UOp) -> list[UOp]:
    if node.op is Ops.BUFFER:
        return [node.src[0]]
    return [u for u in node.toposort() if u.op is Ops.UNIQUE]


def explain_mismatch(names: list, forms: list, call: CallInputs) -> str | None:
    """Why a call does not fit a capture, or None where it does."""
    if names != call.names:
        return f"args mismatch in JIT: captured with tensor arguments {names}, called with {call.names}"
    for name, want, got in zip(names, forms, call.forms):
        if want != got:
            before, now = _shown(want), _shown(got)
            if before == now:
                other = "set of variables" if want[0] is got[0] else "view of its buffer"
                now = f"the same shape, but another {other}"
            return (
                f"args mismatch in JIT: argument {name} was captured as {before}, called with {now}; "
                "make it contiguous, give it the same shape, or use a second TinyJit"
            )
    return None


def _shown(form: Form) -> str:
    view, _, dtype, device = form
    kind = "" if view.op is Ops.BUFFER else f" (a view: {view.op.name})"
    return f"{dtype} of shape {view.shape} on {device}{kind}"


# ---------------------------------------------------------------- results


@dataclass(frozen=True)
class _TensorSlot:
    """A tensor of a result: `number` of the input that it is, or a node in which input buffers are exchanged."""

    example: Any
    node: UOp
    is_input: int | None
    own_object: bool  # the very object is returned, since the caller had it before


def _input_views(node: UOp, inputs: dict[Buffer, int]) -> dict[UOp, tuple[int, int]]:
    """BUFFER nodes of a result that lie in an input: -> (number of the input, offset in bytes)."""
    found = {}
    for u in node.toposort():
        if u.op is Ops.BUFFER and u in buffers and isinstance(held := buffers[u], Buffer):
            if held.base in inputs:
                found[u] = (inputs[held.base], held.offset)
    return found


class Outputs:
    """The result of a captured call, as a recipe: `rebuild` gives it for the buffers of another call."""

    def __init__(self, ret: Any, call: CallInputs, known_before: set[int]):
        self.ret = ret
        numbers = {buf.base: i for i, buf in enumerate(call.buffers)}
        same_object = {id(t): i for i, t in enumerate(call.tensors)}
        self.views: dict[UOp, tuple[int, int]] = {}
        # results that share memory, by their own nodes, with what the caller knows
        self.shared: dict[UOp, Buffer | MultiBuffer] = {}
        self.slots: list[_TensorSlot] = []
        # sizes of results that were bound to values of that call
        self.bound: set[UOp] = set()
        for tensor in tensors_in(ret):
            views = _input_views(tensor.uop, numbers)
            for u in tensor.uop.toposort():
                if u.op is Ops.BIND and u.src[0].expr in call.var_vals:
                    self.bound.add(u)
                if sharing.is_twin(u) and (held := buffers.get(u)) is not None:
                    self.shared[u] = held
            self.views.update(views)
            is_input = same_object.get(id(tensor))
            own = id(tensor) in known_before and is_input is None
            self.slots.append(_TensorSlot(tensor, tensor.uop, is_input, own))

    @functools.cached_property
    def _slot_of(self) -> dict[int, _TensorSlot]:
        return {id(t): slot for t, slot in zip(tensors_in(self.ret), self.slots)}

    def __getstate__(self) -> dict[str, Any]:
        # objects have other ids where they are loaded
        return {k: v for k, v in self.__dict__.items() if k != "_slot_of"}

    def shared_memory(self) -> set[Buffer]:
        """The bases of memory that results share with somebody."""
        return {b.base for held in self.shared.values() for b in getattr(held, "bufs", [held])}

    def memory(self) -> set[Buffer]:
        """The bases of the memory of all results."""
        found = set(self.shared_memory())
        for slot in self.slots:
            found |= memory_of(slot.node)
        return found

    def rebuild(self, call: CallInputs) -> Any:
        """The result with new Tensor objects, so that what a caller does to one does not reach the next call."""
        swaps = {
            node: _view_node(node, call.buffers[i], offset, call)
            for node, (i, offset) in self.views.items()
        }
        for node in self.bound:
            value = call.var_vals[node.src[0].expr]
            if node.val != value:
                swaps[node] = node.src[0].bind(value)
        for node, held in self.shared.items():
            given = swaps.get(node)
            swaps[node] = sharing.share(node, held) if given is None else sharing.share(given)
        return self._copy(self.ret, call, swaps, {})

    def _copy(
        self, value: Any, call: CallInputs, swaps: dict[UOp, UOp], made: dict[int, Any]
    ) -> Any:
        slot = self._slot_of.get(id(value))
        if slot is not None:
            if id(value) not in made:
                made[id(value)] = self._tensor(slot, call, swaps)
            return made[id(value)]
        if isinstance(value, dict):
            return type(value)((k, self._copy(v, call, swaps, made)) for k, v in value.items())
        if isinstance(value, tuple):
            items = [self._copy(v, call, swaps, made) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, (list, set, frozenset)):
            return type(value)(self._copy(v, call, swaps, made) for v in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and tensors_in(value):
            changed = {
                f.name: self._copy(getattr(value, f.name), call, swaps, made)
                for f in dataclasses.fields(value)
            }
            return dataclasses.replace(value, **changed)
        return value

    @staticmethod
    def _tensor(slot: _TensorSlot, call: CallInputs, swaps: dict[UOp, UOp]) -> Any:
        if slot.is_input is not None:
            return call.tensors[slot.is_input]
        if slot.own_object:
            return slot.example
        node = slot.node.substitute(swaps) if swaps else slot.node
        made = type(slot.example)._wrap(node, slot.example.requires_grad)
        made.grad = slot.example.grad
        return made


def _view_node(node: UOp, buf: Buffer, offset: int, call: CallInputs) -> UOp:
    """The node that looks into this call's input where `node` looked into the captured one's."""
    for base in call.nodes:
        if (
            base.realized is buf
            and base.arg == node.arg
            and base.dtype is node.dtype
            and offset == buf.offset
        ):
            return base
    fresh = UOp.new_buffer(buf.device, node.arg, node.dtype)
    buffers[fresh] = buf.base.view(node.arg, node.dtype, offset)
    return fresh

"""The PROGRAM node: a kernel on its way from AST to text, and the questions one may ask of it.

`src` grows with the stages: (SINK, DEVICE), then LINEAR, then SOURCE. `ProgramMethods` is installed
into the node type by `tinygrad.uop.ops`; every property raises an error for another op. What is
computed from the instruction list is computed once per node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tinygrad._core import UOp, cached
from tinygrad.dtype import dtypes
from tinygrad.uop import Ops
from tinygrad.uop.info import KernelInfo
from tinygrad.uop.installed import Installed

if TYPE_CHECKING:
    from tinygrad.renderer import Estimates

_THROUGH = {Ops.CAST, Ops.AFTER, Ops.INDEX, Ops.GEP, Ops.BITCAST}


class _Usage(NamedTuple):
    """What the instruction list says about the arguments and the launch."""

    globals: tuple[int, ...]
    outs: tuple[int, ...]
    ins: tuple[int, ...]
    variables: tuple[UOp, ...]
    specials: tuple[UOp, ...]


def _slot_of(address: UOp) -> int | None:
    """The argument slot that an address lies in, None for other memory."""
    while address.op in _THROUGH:
        address = address.src[0]
    return address.arg if address.op is Ops.DEFINE_GLOBAL else None


def _instructions(u: UOp) -> tuple[UOp, ...]:
    if len(u.src) < 3:
        raise RuntimeError(f"this PROGRAM has no LINEAR yet: its sources are {_ops_of(u.src)}")
    return u.src[2].src


def _ops_of(nodes: tuple[UOp, ...]) -> list[str]:
    return [n.op.name for n in nodes]


def _usage_of(u: UOp) -> _Usage:
    slots, outs, ins = set(), set(), set()
    variables, specials = [], []
    for x in _instructions(u):
        if x.op is Ops.DEFINE_GLOBAL:
            slots.add(x.arg)
        elif x.op is Ops.STORE:
            outs.add(_slot_of(x.src[0]))
        elif x.op is Ops.LOAD:
            ins.add(_slot_of(x.src[0]))
        elif x.op is Ops.DEFINE_VAR:
            variables.append(x)
        elif x.op is Ops.SPECIAL:
            specials.append(x)
    variables.sort(key=lambda v: v.arg)
    return _Usage(
        tuple(sorted(slots)),
        tuple(sorted(slot for slot in outs if slot is not None)),
        tuple(sorted(slot for slot in ins if slot is not None)),
        tuple(dict.fromkeys(variables)),
        tuple(specials),
    )


def _sizes_of(u: UOp) -> tuple[tuple | None, tuple | None]:
    """(global, local): None, or three sizes, each an int or a node."""
    usage = u._usage
    if not usage.specials:
        return _threads_of(usage), None
    groups, threads, plain = [1, 1, 1], [1, 1, 1], False
    for x in usage.specials:
        kind, axis = x.arg[:-1], int(x.arg[-1])
        # the letter says which: gidx is a group, lidx a thread in it, idx a thread of the whole
        (threads if kind.startswith("l") else groups)[axis] = x.src[0].ssimplify()
        plain = plain or kind.startswith("i")
    return tuple(groups), None if plain else tuple(threads)


def _threads_of(usage: _Usage) -> tuple | None:
    core = next((v for v in usage.variables if v.arg[0] == "core_id"), None)
    return None if core is None else (int(core.vmax) + 1, 1, 1)


def _estimates_of(u: UOp) -> Estimates:
    from tinygrad.renderer import Estimates

    return Estimates.from_uops(list(u.uops), ignore_indexing=True)


def _require(u: UOp, what: str) -> UOp:
    if u.op is not Ops.PROGRAM:
        raise AssertionError(f"{what} is a property of a PROGRAM, got {u.op}")
    return u


def _evaluated(size, var_vals: dict[str, int]) -> int:
    if not isinstance(size, UOp):
        return int(size)
    for v in size.vars():
        if v.op is Ops.BIND:
            continue
        name, low, high = v.arg
        if name not in var_vals:
            raise KeyError(f"launch size {size.render()} needs {name!r}; given: {sorted(var_vals)}")
        if not low <= var_vals[name] <= high:
            raise ValueError(
                f"variable {name!r} is {var_vals[name]}, its bounds are {low} .. {high}"
            )
    return size.sym_infer(var_vals)


class ProgramMethods(Installed):
    """What a PROGRAM says about its kernel."""

    _usage = cached("program_usage", _usage_of)
    _sizes = cached("program_sizes", _sizes_of)
    _estimates = cached("program_estimates", _estimates_of)

    @property
    def name(self) -> str:
        """The name of the kernel, which may hold colour codes."""
        return _require(self, "name").src[0].arg.name

    @property
    def applied_opts(self) -> tuple:
        """The optimisations that were applied."""
        return _require(self, "applied_opts").src[0].arg.applied_opts

    @property
    def uops(self) -> list[UOp]:
        """The instruction list."""
        return list(_instructions(_require(self, "uops")))

    @property
    def estimates(self) -> Estimates:
        """Operations and bytes of one launch."""
        return _require(self, "estimates")._estimates

    @property
    def globals(self) -> list[int]:
        """The buffer slots used, ascending."""
        return list(_require(self, "globals")._usage.globals)

    @property
    def outs(self) -> list[int]:
        """The buffer slots stored to, ascending."""
        return list(_require(self, "outs")._usage.outs)

    @property
    def ins(self) -> list[int]:
        """The buffer slots loaded from, ascending."""
        return list(_require(self, "ins")._usage.ins)

    def variables(self) -> list[UOp]:
        """The variables: of a PROGRAM in the order of its arguments, of any graph by name.

        >>> n, m = UOp.variable("n", 1, 8), UOp.variable("m", 1, 8)
        >>> [v.expr for v in (n.bind(2) * m.bind(3)).variables()]
        ['m', 'n']
        """
        if self.op is Ops.PROGRAM:
            return list(self._usage.variables)
        found = {v.unbind()[0] if v.op is Ops.BIND else v for v in self.vars()}
        return sorted(found, key=lambda v: v.arg)

    def prog_vars(self) -> list[UOp]:
        """The variables of a PROGRAM in the order of its arguments."""
        return _require(self, "prog_vars").variables()

    @property
    def sizes(self) -> tuple[tuple | None, tuple | None]:
        """`(global_size, local_size)`; an entry may be symbolic.

        Without locals and threads both are None; without locals, or with plain global indices, the
        local size is None.
        """
        return _require(self, "sizes")._sizes

    @property
    def global_size(self):
        """The number of groups (or threads) along three axes, or None."""
        return self.sizes[0]

    @property
    def local_size(self):
        """The number of threads of a group along three axes, or None."""
        return self.sizes[1]

    def launch_dims(self, var_vals: dict[str, int]) -> tuple[list[int] | None, list[int] | None]:
        """`sizes` with the variables set. Raises KeyError for a missing one, ValueError for one
        outside its bounds."""
        groups, threads = (
            None if half is None else [_evaluated(size, var_vals) for size in half]
            for half in self.sizes
        )
        return groups, threads

    @staticmethod
    def new_program(name: str, src: str, device: str, ast: UOp, uops: list[UOp]) -> UOp:
        """A PROGRAM from its parts, for kernels made elsewhere.

        `ast` may lack an arg; SPECIAL nodes in `uops` carry the launch sizes.
        """
        sink = ast if isinstance(ast.arg, KernelInfo) else ast.replace(arg=KernelInfo(name=name))
        if sink.arg.name != name:
            raise ValueError(f"the AST is named {sink.arg.name!r}, the program {name!r}")
        linear = UOp(Ops.LINEAR, dtypes.void, tuple(uops))
        parts = (sink, UOp(Ops.DEVICE, arg=device), linear, UOp(Ops.SOURCE, arg=src))
        return UOp(Ops.PROGRAM, dtypes.void, parts)

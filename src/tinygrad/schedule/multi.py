"""Sharded tensors.

A node whose device is a tuple of names runs once on each device, on that device's part; the number
of the device is the variable `_device_num`. MULTI(part, axis) says that the parts are pieces of one
tensor, joined along `axis` (None: every device has all of it). The rules here move MULTI from the
inputs to the outputs, so that below it only parts are left, and turn what crosses devices into
COPY nodes between single devices: MSELECT takes one device's part, MSTACK joins parts of single
devices.
"""

from __future__ import annotations

from tinygrad.helpers import RING, getenv, prod
from tinygrad.schedule.cleanup import rewrite_all
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UOp, UPat

# From this many elements on, on more than two devices, an allreduce goes around in a ring.
RING_THRESHOLD = getenv("RING_ALLREDUCE_THRESHOLD", 256_000)


def device_number(devices: tuple[str, ...]) -> UOp:
    return UOp.variable("_device_num", 0, len(devices) - 1)


def own_part(whole: UOp, axis: int, devices: tuple[str, ...]) -> UOp:
    """The piece along `axis` that belongs to the device that runs this."""
    size = whole.shape[axis] // len(devices)
    begin = device_number(devices) * size
    bounds = [(0, s) for s in whole.shape]
    bounds[axis] = (begin, begin + size)
    return whole.shrink(tuple(bounds))


def part_along(u: UOp, axis: int | None, devices: tuple[str, ...]) -> UOp:
    """What a device needs of an operand so that it fits parts along `axis`."""
    if u.op is Ops.MULTI:
        if u.arg == axis:
            return u.src[0]
        # pieces of another axis: everybody gets all of it first
        u = u.src[0] if u.arg is None else gather(u, UOp(Ops.DEVICE, arg=devices))
    return u if axis is None else own_part(u, axis, devices)


def _everywhere(u: UOp, devices: tuple[str, ...]) -> UOp:
    """An operand of a computation on several devices. Raises RuntimeError for one that lies on a single device."""
    if u.op is Ops.MULTI or not isinstance(u._device, str):
        return u
    if u.base.op is Ops.CONST:  # a number is wherever it is needed
        return u.substitute({UOp(Ops.DEVICE, arg=u.device): UOp(Ops.DEVICE, arg=devices)})
    raise RuntimeError(
        f"all buffers must be on the same device: {u.device} and {devices}; "
        "put the first on those devices, with .shard(devices)"
    )


# *** MULTI moves up ***


def lift_elementwise(u: UOp) -> UOp | None:
    """f(multi(a), multi(b)) -> multi(f(a, b))"""
    sharded = [s for s in u.src if s.op is Ops.MULTI]
    if not sharded:
        return None
    devices = sharded[0].device
    axis = next((s.arg for s in reversed(sharded) if s.arg is not None), None)
    parts = tuple(part_along(_everywhere(s, devices), axis, devices) for s in u.src)
    return u.replace(src=parts).multi(axis)


def lift_single(u: UOp, multi: UOp) -> UOp:
    """f(multi(a)) -> multi(f(a)) for what keeps the shape"""
    return u.replace(src=(multi.src[0], *u.src[1:])).multi(multi.arg)


def lift_reduce(u: UOp, multi: UOp) -> UOp:
    """A reduction over the sharded axis goes on across the devices."""
    op, axes = u.arg
    part = u.replace(src=(multi.src[0],))
    if multi.arg is not None and multi.arg in axes:
        return part.allreduce(op, multi.device).multi(None)
    return part.multi(multi.arg)


def lift_reshape(u: UOp, multi: UOp) -> UOp:
    part, axis = multi.src[0], multi.arg
    if axis is None:
        return part.reshape(u.shape).multi(None)
    new_axis, count = u.axis, len(multi.device)
    new_shape = list(u.shape)
    if new_shape[new_axis] % count != 0:
        raise ValueError(
            f"reshape {multi.shape} -> {u.shape} moves elements between shards: axis {new_axis} has "
            f"to be a multiple of {count}"
        )
    new_shape[new_axis] //= count
    return part.reshape(tuple(new_shape)).multi(new_axis)


def lift_expand(u: UOp, multi: UOp) -> UOp:
    part, axis = multi.src[0], multi.arg
    new_shape = list(u.shape)
    if axis is not None:
        new_shape[axis] = part.shape[axis]
    return part.expand(tuple(new_shape)).multi(axis)


def lift_permute(u: UOp, multi: UOp) -> UOp:
    axis = None if multi.arg is None else u.arg.index(multi.arg)
    return u.replace(src=(multi.src[0],)).multi(axis)


def lift_flip(u: UOp, multi: UOp) -> UOp:
    if multi.arg is not None and u.arg[multi.arg]:
        return _on_the_whole(u, multi)
    return u.replace(src=(multi.src[0],)).multi(multi.arg)


def lift_pad(u: UOp, multi: UOp) -> UOp:
    if multi.arg is not None and u.marg[multi.arg] != (0, 0):
        return _on_the_whole(u, multi)
    return multi.src[0].pad(u.marg).multi(multi.arg)


def _on_the_whole(u: UOp, multi: UOp) -> UOp:
    """What moves elements between shards: each device fetches the pieces and keeps its part of the result."""
    devices, axis = multi.device, multi.arg
    if u.shape[axis] % len(devices):
        raise AssertionError(
            f"{u.op.name} {multi.shape} -> {u.shape}: the sharded axis {axis} has to stay a multiple of {len(devices)}; "
            "shard along another axis, or move the tensor to one device with .to()"
        )
    whole = u.replace(src=(gather(multi, UOp(Ops.DEVICE, arg=devices)), *u.src[1:]))
    return own_part(whole, axis, devices).multi(axis)


def lift_shrink(u: UOp, multi: UOp) -> UOp:
    """Along the sharded axis: everything, or exactly one shard, which then goes to all devices."""
    part, axis, bounds = multi.src[0], multi.arg, list(u.marg)
    if axis is None or bounds[axis] == (0, multi.shape[axis]):
        if axis is not None:
            bounds[axis] = (0, part.shape[axis])
        return part.shrink(tuple(bounds)).multi(axis)
    shards = [(i * part.shape[axis], (i + 1) * part.shape[axis]) for i in range(len(multi.device))]
    if bounds[axis] not in shards:
        raise AssertionError(
            f"a sharded axis is shrunk at shard boundaries only: got {bounds[axis]} of axis {axis}, shards {shards}; "
            "move the tensor to one device first, with .to()"
        )
    others = [b for at, b in enumerate(bounds) if at != axis]
    if others != [(0, s) for at, s in enumerate(multi.shape) if at != axis]:
        raise AssertionError(
            f"can't shrink the sharded axis {axis} and another axis at the same time, got {bounds}; do one after the other"
        )
    owner = part.mselect(shards.index(bounds[axis]))
    return owner.copy_to_device(multi.device).multi(None)


def lift_assign(u: UOp) -> UOp | None:
    """The target decides how the value is sharded."""
    target, value = u.src
    if target.op is Ops.MULTI:
        part = part_along(value, target.arg, target.device)
        return target.src[0].assign(part).multi(target.arg)
    if value.op is not Ops.MULTI:
        return None
    return target.assign(part_along(value, None, value.device)).multi(None)


def lift_allreduce(u: UOp, multi: UOp) -> UOp:
    return u.replace(src=(multi.src[0], *u.src[1:])).multi(multi.arg)


def lift_custom(u: UOp) -> UOp | None:
    if not any(s.op is Ops.MULTI for s in u.src):
        return None
    return u.replace(src=tuple(s.src[0] if s.op is Ops.MULTI else s for s in u.src))


def lift_after(u: UOp) -> UOp | None:
    """What an AFTER waits for happens on all devices."""
    sharded = next((s for s in u.src if s.op is Ops.MULTI), None)
    if sharded is None:
        return None
    axis = u.src[0].arg if u.src[0].op is Ops.MULTI else None
    return u.replace(src=tuple(s.src[0] if s.op is Ops.MULTI else s for s in u.src)).multi(axis)


def copy_gathered(copy: UOp, multi: UOp) -> UOp:
    """A copy of a sharded tensor puts the pieces together where it goes."""
    place = copy.src[1]
    whole = gather(multi, place)
    return whole.multi(None) if isinstance(place.arg, tuple) else whole


def gather(multi: UOp, place: UOp) -> UOp:
    """All of a sharded tensor on one device, or on each of several."""
    part, axis = multi.src[0], multi.arg
    if axis is None:
        return part.mselect(0).copy_to_device(place)
    size, pieces = part.shape[axis], []
    for number in range(len(multi.device)):
        room = [(0, 0)] * len(part.shape)
        room[axis] = (size * number, size * (len(multi.device) - 1 - number))
        pieces.append(part.mselect(number).copy_to_device(place).pad(tuple(room)))
    return combine(Ops.ADD, pieces)


def combine(op: Ops, values: list[UOp]) -> UOp:
    total = values[0]
    for value in values[1:]:
        total = total.alu(op, value)
    return total


# *** what crosses devices ***


def copy_from_replica(copy: UOp, source: UOp) -> UOp | None:
    """All devices have the same: the first one gives it."""
    if not isinstance(source.device, tuple) or source.op is Ops.MULTI:
        return None
    if isinstance(copy.device, tuple) and copy.device == source.device:
        return source
    return copy.replace(src=(source.mselect(0), copy.src[1]))


def broadcast(copy: UOp, source: UOp) -> UOp | None:
    """A copy to several devices is one copy to each."""
    if not isinstance(copy.device, tuple) or isinstance(source.device, tuple):
        return None
    if source.base.op is Ops.CONST:
        return None
    copies = tuple(source.copy_to_device(device) for device in copy.device)
    return UOp(Ops.MSTACK, copy.dtype, copies)


def shrink_before_copy(shrink: UOp, copy: UOp) -> UOp | None:
    """Each device gets only its own part."""
    if not isinstance(copy.device, tuple) or isinstance(copy.src[0].device, tuple):
        return None
    number = device_number(copy.device)
    if number not in UOp.sink(*shrink.src[1:]).toposort() or copy.src[0].base.op is Ops.CONST:
        return None
    parts = []
    for index, device in enumerate(copy.device):
        bounds = tuple(
            tuple(_at_device(edge, number, index) for edge in pair) for pair in shrink.marg
        )
        parts.append(copy.src[0].shrink(bounds).copy_to_device(device))
    return UOp(Ops.MSTACK, shrink.dtype, tuple(parts))


def _at_device(size, number: UOp, index: int):
    if not isinstance(size, UOp):
        return size
    return size.substitute({number: number.const_like(index)}).ssimplify()


def select_from_stack(select: UOp, stack: UOp) -> UOp:
    return stack.src[select.arg]


def select_through_view(select: UOp, view: UOp) -> UOp:
    """The view of one device's part, with that device's number."""
    number = device_number(view.device)
    swap = {number: number.const_like(select.arg)}
    sizes = tuple(s.substitute(swap).simplify() for s in view.src[1:])
    return view.replace(src=(view.src[0].mselect(select.arg), *sizes))


# *** allreduce ***


def lower_allreduce(allreduce: UOp) -> UOp | None:
    """All devices' parts combined; on all devices, or on one."""
    part, devices = allreduce.src[0], allreduce.src[0].device
    if part.op is Ops.MULTI or not isinstance(devices, tuple):
        return None
    elements = prod(part.shape)
    if any(isinstance(size, UOp) for size in part.shape):
        use_ring = False
    else:
        large = len(devices) > 2 and elements > RING_THRESHOLD and RING >= 1
        use_ring = (RING >= 2 or large) and elements >= len(devices)
    part = part.contiguous()
    if use_ring and allreduce.device == devices:
        return ring_allreduce(allreduce.arg, part, devices)
    copies = [part.mselect(i).copy_to_device(allreduce.src[1]) for i in range(len(devices))]
    return combine(allreduce.arg, copies)


def ring_allreduce(op: Ops, part: UOp, devices: tuple[str, ...]) -> UOp:
    """Each device passes a growing sum of one chunk to its neighbour, then the finished chunks.

    The bandwidth-optimal scheme of Patarasuk and Yuan (2009): 2*(n-1)/n of the data per link.
    """
    count, elements = len(devices), prod(part.shape)
    flat = part.reshape((elements,))
    edges = [elements * i // count for i in range(count + 1)]
    on_device: list[list[UOp]] = [[] for _ in devices]
    for chunk in range(count):
        bounds = ((edges[chunk], edges[chunk + 1]),)
        total = flat.mselect(chunk).shrink(bounds)
        for step in range(1, count):
            at = (chunk + step) % count
            arrived = total.copy_to_device(devices[at])
            total = arrived.alu(op, flat.mselect(at).shrink(bounds))
        room = ((edges[chunk], elements - edges[chunk + 1]),)
        last = (chunk + count - 1) % count
        for step in range(count):
            at = (last + step) % count
            total = total.contiguous() if step == 0 else total.copy_to_device(devices[at])
            on_device[at].append(total.pad(room))
    joined = tuple(combine(Ops.ADD, pieces).contiguous() for pieces in on_device)
    return UOp(Ops.MSTACK, part.dtype, joined).reshape(part.shape)


_multi = UPat(Ops.MULTI, name="multi")
_KEEP_SHAPE = (Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH)

pm_multi = PatternMatcher(
    [
        (UPat(GroupOp.Elementwise, name="u", custom_early_reject={Ops.MULTI}), lift_elementwise),
        (UPat(_KEEP_SHAPE, src=(_multi,), name="u"), lift_single),
        (UPat(Ops.REDUCE_AXIS, src=(_multi,), name="u"), lift_reduce),
        (UPat(Ops.RESHAPE, src=(_multi,), name="u", allow_any_len=True), lift_reshape),
        (UPat(Ops.EXPAND, src=(_multi,), name="u", allow_any_len=True), lift_expand),
        (UPat(Ops.PERMUTE, src=(_multi,), name="u"), lift_permute),
        (UPat(Ops.FLIP, src=(_multi,), name="u"), lift_flip),
        (UPat(Ops.PAD, src=(_multi,), name="u", allow_any_len=True), lift_pad),
        (UPat(Ops.SHRINK, src=(_multi,), name="u", allow_any_len=True), lift_shrink),
        (UPat(Ops.ASSIGN, name="u", custom_early_reject={Ops.MULTI}), lift_assign),
        (UPat(Ops.ALLREDUCE, src=(_multi,), name="u", allow_any_len=True), lift_allreduce),
        (UPat(Ops.CUSTOM_KERNEL, name="u", custom_early_reject={Ops.MULTI}), lift_custom),
        (UPat(Ops.AFTER, name="u", custom_early_reject={Ops.MULTI}), lift_after),
        (UPat(Ops.COPY, src=(_multi,), name="copy", allow_any_len=True), copy_gathered),
        (UPat(Ops.COPY, src=(UPat.var("source"), UPat()), name="copy"), copy_from_replica),
        (
            UPat(Ops.SHRINK, src=(UPat(Ops.COPY, name="copy"),), name="shrink", allow_any_len=True),
            shrink_before_copy,
        ),
        (UPat(Ops.ALLREDUCE, name="allreduce"), lower_allreduce),
    ]
)

# a copy to all devices may still lose most of what it copies to a SHRINK above: broadcast later
pm_split_devices = PatternMatcher(
    [
        (UPat(Ops.COPY, src=(UPat.var("source"), UPat()), name="copy"), broadcast),
        (
            UPat(Ops.MSELECT, src=(UPat(Ops.MSTACK, name="stack"),), name="select"),
            select_from_stack,
        ),
        (
            UPat(Ops.MSELECT, src=(UPat(GroupOp.Movement, name="view"),), name="select"),
            select_through_view,
        ),
    ]
)


def spread_over_devices(nodes: list[UOp]) -> list[UOp]:
    """The form of every node on parts of single devices; the last node is the sink of all."""
    crosses = any(u.op in _MANY or (u.op is Ops.DEVICE and isinstance(u.arg, tuple)) for u in nodes)
    if not crosses:
        return nodes
    lifted = rewrite_all(nodes, pm_multi, "multi")
    return rewrite_all(lifted, pm_split_devices, "split devices")


_MANY = frozenset({Ops.MULTI, Ops.MSTACK, Ops.MSELECT, Ops.ALLREDUCE})

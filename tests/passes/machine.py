"""Runs a linear instruction list in Python, one launch index after the other: the oracle of these tests.

Buffers are NumPy arrays by slot. Vectors are lists of lanes. Every access is checked against its array,
so an instruction list that would read or write out of bounds fails here. The threads of a group (`lidx`)
run side by side and meet at barriers.
"""

from __future__ import annotations

import itertools
import threading

import numpy as np

from tinygrad.dtype import PtrDType, _to_np_dtype, dtypes
from tinygrad.uop import GroupOp, Ops
from tinygrad.uop.ops import exec_alu


class Machine:
    def __init__(self, lines, buffers, variables=None):
        self.lines = list(lines)
        self.buffers = buffers
        self.variables = variables or {}
        self.values = {}
        self.match = self._match_blocks()

    def _match_blocks(self):
        match, stack = {}, []
        for i, u in enumerate(self.lines):
            if u.op in (Ops.RANGE, Ops.IF):
                stack.append(i)
            elif u.op in (Ops.END, Ops.ENDIF):
                opened = stack.pop()
                expected = u.src[1] if u.op is Ops.END else u.src[0]
                assert self.lines[opened] is expected, f"{u.op} closes {expected}, open is {opened}"
                match[opened] = i
        assert not stack, "blocks left open"
        return match

    def run(self):
        cores = [u for u in self.lines if u.op is Ops.DEFINE_VAR and u.arg[0] == "core_id"]
        specials = [u for u in self.lines if u.op is Ops.SPECIAL]
        groups = [u for u in specials if not u.arg.startswith("lidx")]
        members = [u for u in specials if u.arg.startswith("lidx")]
        for core in range(cores[0].arg[2] + 1 if cores else 1):
            for point in self._points(groups):
                start = dict(zip(groups, point)) | ({cores[0]: core} if cores else {})
                self._run_group(start, members)

    @staticmethod
    def _points(specials):
        return itertools.product(*(range(int(u.src[0].arg)) for u in specials))

    def _run_group(self, start, members):
        points = list(self._points(members))
        shared, barrier, errors = {}, threading.Barrier(len(points), timeout=20), []

        def body(point):
            thread = Machine(self.lines, self.buffers, self.variables)
            thread.values = start | dict(zip(members, point))
            thread.shared, thread.barrier = shared, barrier
            try:
                thread._block(0, len(self.lines))
            except BaseException as e:
                errors.append(e)
                barrier.abort()

        if len(points) == 1:
            body(points[0])
        else:
            threads = [threading.Thread(target=body, args=(p,)) for p in points]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        if errors:
            raise errors[0]

    def _block(self, i, stop):
        while i < stop:
            u = self.lines[i]
            if u.op is Ops.RANGE:
                for step in range(int(self._value(u.src[0]))):
                    self.values[u] = step
                    self._block(i + 1, self.match[i])
                i = self.match[i]
            elif u.op is Ops.IF:
                if self._value(u.src[0]):
                    self._block(i + 1, self.match[i])
                i = self.match[i]
            else:
                self._step(u)
            i += 1

    def _value(self, u):
        assert u in self.values, f"{u.op} {u.arg} is used before it is there"
        return self.values[u]

    def _lanes(self, u, count):
        v = self._value(u)
        return v if isinstance(v, list) else [v] * count

    def _step(self, u):
        if u.op is Ops.DEFINE_GLOBAL:
            self.values[u] = (self.buffers[u.arg], 0)
        elif u.op is Ops.DEFINE_LOCAL:
            fresh = np.zeros(u.dtype.size, _to_np_dtype(u.dtype.base))
            self.values[u] = (self.shared.setdefault(u, fresh), 0)
        elif u.op is Ops.BARRIER:
            self.barrier.wait()
        elif u.op is Ops.DEFINE_REG:
            self.values[u] = (np.zeros(u.dtype.size, _to_np_dtype(u.dtype.base)), 0)
        elif u.op is Ops.DEFINE_VAR:
            self.values.setdefault(u, self.variables.get(u.arg[0]))
        elif u.op is Ops.CONST:
            self.values[u] = u.arg if u.dtype.count == 1 else [u.arg] * u.dtype.count
        elif u.op is Ops.VCONST:
            self.values[u] = list(u.arg)
        elif u.op in (Ops.VECTORIZE, Ops.CAT):
            self.values[u] = [x for s in u.src for x in self._lanes(s, 1)]
        elif u.op is Ops.GEP:
            picked = [self._value(u.src[0])[i] for i in u.arg]
            self.values[u] = picked[0] if len(picked) == 1 else picked
        elif u.op is Ops.INDEX:
            array, start = self._value(u.src[0])
            self.values[u] = (array, start + int(self._value(u.src[1])))
        elif u.op is Ops.AFTER or (u.op is Ops.CAST and isinstance(u.dtype, PtrDType)):
            self.values[u] = self._value(u.src[0])
        elif u.op is Ops.LOAD:
            self._load(u)
        elif u.op is Ops.STORE:
            self._store(u)
        elif u.op in GroupOp.Elementwise:
            self._elementwise(u)
        else:
            assert u.op in (Ops.SPECIAL, Ops.GROUP, Ops.NOOP, Ops.SINK, Ops.END, Ops.ENDIF), u

    def _gate(self, u, count):
        inner = u.src[0].src[0] if u.src[0].op is Ops.CAST else u.src[0]
        return self._lanes(inner.src[2], count) if len(inner.src) > 2 else [True] * count

    def _load(self, u):
        count = u.dtype.count
        array, at = self._value(u.src[0])
        alt = self._lanes(u.src[1], count) if len(u.src) > 1 else [None] * count
        got = []
        for i, allowed in enumerate(self._gate(u, count)):
            assert not allowed or 0 <= at + i < len(array), f"read of {at + i} in {len(array)}"
            got.append(array[at + i].item() if allowed else alt[i])
        self.values[u] = got if count > 1 else got[0]

    def _store(self, u):
        count = u.src[1].dtype.count
        array, at = self._value(u.src[0])
        lanes = self._lanes(u.src[1], count)
        for i, allowed in enumerate(self._gate(u, count)):
            if allowed:
                assert 0 <= at + i < len(array), f"write of {at + i} in {len(array)}"
                array[at + i] = lanes[i]

    def _elementwise(self, u):
        count = u.dtype.count
        rows = zip(*(self._lanes(s, count) for s in u.src))
        scalar = u.dtype.scalar()
        if u.op is Ops.CAST:
            got = [dtypes.as_const(r[0], scalar) for r in rows]
        elif u.op is Ops.BITCAST:
            source = _to_np_dtype(u.src[0].dtype.scalar())
            got = [np.array(r[0], source).view(_to_np_dtype(scalar)).item() for r in rows]
        else:
            got = [exec_alu(u.op, scalar, r) for r in rows]
        self.values[u] = got if count > 1 else got[0]

"""From kernel graphs to launches: order, memory plan, caches on disk, runners, interpreter."""

import itertools
import os
import pickle
import random
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from tinygrad import Device, Tensor, Variable, dtypes
from tinygrad.device import Buffer
from tinygrad.engine import program_cache, program_facts
from tinygrad.engine.memory import _internal_memory_planner
from tinygrad.engine.realize import (
    BufferCopy,
    BufferXfer,
    CompiledRunner,
    ExecItem,
    ViewOp,
    get_program,
    get_runner,
    run_schedule,
)
from tinygrad.engine.schedule import _in_order, schedule_cache
from tinygrad.helpers import NOOPT, Context, GlobalCounters
from tinygrad.runtime.support.memory import TLSFAllocator
from tinygrad.uop.ops import KernelInfo, Ops, UOp


def kernel_of(tensor):
    return tensor.schedule()[-1]


# ---- order


def test_soft_waits_hold_where_they_can():
    # 1 overwrites what 0 and 2 read
    assert _in_order([set(), set(), set()], [set(), {0, 2}, set()]) == [0, 2, 1]


def test_a_reader_of_the_new_version_comes_after():
    assert _in_order([set(), set(), {1}], [set(), {0, 2}, set()]) == [0, 1, 2]


def test_circles_are_found():
    with pytest.raises(RuntimeError, match="circle"):
        _in_order([{1}, {0}], [set(), set()])


@pytest.mark.parametrize("seed", range(20))
def test_random_orders(seed):
    draw, count = random.Random(seed), 30
    hard = [{j for j in range(i) if draw.random() < 0.1} for i in range(count)]
    names = draw.sample(range(count), count)
    renamed = [set() for _ in range(count)]
    for i, waits in enumerate(hard):
        renamed[names[i]] = {names[j] for j in waits}
    order = _in_order(renamed, [set() for _ in range(count)])
    place = {n: i for i, n in enumerate(order)}
    assert sorted(order) == list(range(count))
    assert all(place[b] < place[a] for a in range(count) for b in renamed[a])


def test_old_values_are_read_before_they_are_overwritten():
    a = Tensor([1.0, 2.0, 3.0]).contiguous().realize()
    b = a + 1
    a.assign(a * 10)
    c = a + 2
    Tensor.realize(c, b, a)
    assert (a.tolist(), b.tolist(), c.tolist()) == ([10, 20, 30], [2, 3, 4], [12, 22, 32])


# ---- schedules


def test_one_plan_for_equal_graphs():
    schedule_cache.clear()
    x, y = (Tensor([k, 2.0]).contiguous().realize() for k in (1.0, 5.0))
    size = len(schedule_cache)
    assert (x * 3 + 1).tolist() == [4.0, 7.0]
    grown = len(schedule_cache)
    assert (y * 3 + 1).tolist() == [16.0, 7.0]
    assert len(schedule_cache) == grown > size


def test_one_plan_for_every_bound_value():
    x = Tensor([1.0, 2.0, 4.0, 8.0]).contiguous().realize()
    sums = [x[: Variable("n", 1, 4).bind(n)].sum().item() for n in (1, 2, 3, 4, 2)]
    assert sums == [1.0, 3.0, 7.0, 15.0, 3.0]


def test_one_variable_with_two_values():
    x = Tensor([1.0, 2.0, 4.0]).contiguous().realize()
    v = Variable("n", 1, 3)
    with pytest.raises(AssertionError, match="bind mismatch on n: .* 1 and 2"):
        (x[: v.bind(1)].sum() + x[: v.bind(2)].sum()).realize()


def test_a_kept_plan_holds_no_memory():
    def once():
        return (Tensor.ones(1000).contiguous() + 1).contiguous().sum().item()

    once()
    before = GlobalCounters.mem_used
    for _ in range(3):
        once()
    assert GlobalCounters.mem_used == before


def test_the_list_is_used_up():
    items = (Tensor.ones(4).contiguous() + 1).contiguous().schedule()
    run_schedule(items)
    assert items == []


def test_errors_say_where():
    item = ExecItem(UOp(Ops.NOOP), [])
    with pytest.raises(RuntimeError, match="a schedule holds kernels"):
        item.lower()
    with pytest.raises(RuntimeError, match="no buffer in slot 0"):
        ExecItem(UOp(Ops.COPY), [None]).lower()


# ---- memory plan


def intervals(steps):
    life = {}
    for number, step in enumerate(steps):
        for buf in step:
            first, _ = life.get(buf.base, (number, number))
            life[buf.base] = (first, number)
    return life


@pytest.mark.parametrize("seed", range(30))
def test_buffers_alive_together_never_overlap(seed):
    draw = random.Random(seed)
    bases = [Buffer("CPU", draw.choice((1, 100, 1000, 5000)), dtypes.int8) for _ in range(40)]
    kept = draw.sample(bases, 4)
    for b in kept:
        b.ref(1)
    pool = bases + [b.view(1, dtypes.int8, b.size - 1) for b in draw.sample(bases, 10)]
    steps = [draw.sample(pool, draw.randint(1, 4)) for _ in range(60)]
    moved = _internal_memory_planner(steps)
    life = intervals(steps)
    assert not any(b in moved for b in kept)
    placed = [(b, moved[b].offset, moved[b].nbytes) for b in life if b in moved]
    for (a, at, size), (b, bt, more) in itertools.combinations(placed, 2):
        together = life[a][0] <= life[b][1] and life[b][0] <= life[a][1]
        assert not together or at + size <= bt or bt + more <= at
    for step in steps:
        for buf in step:
            if buf.base in moved and buf is not buf.base:
                assert moved[buf].offset == moved[buf.base].offset + buf.offset
    peak = max((at + size for _, at, size in placed), default=0)
    assert peak <= sum(size + 256 for _, _, size in placed)


def test_equal_temporaries_in_a_row_need_two_places():
    row = [Buffer("CPU", 1024, dtypes.int8) for _ in range(50)]
    moved = _internal_memory_planner([row[i : i + 2] for i in range(49)])
    assert moved[row[0]].base.nbytes == 2048


def test_a_device_without_views_reuses_whole_buffers():
    row = [Buffer("NPY", 64, dtypes.int8) for _ in range(6)]
    moved = _internal_memory_planner([row[i : i + 2] for i in range(5)])
    assert len({moved.get(b, b) for b in row}) == 2


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_handed_out_once(seed):
    draw = random.Random(seed)
    size = draw.choice((1 << 12, 1 << 16))
    ranges = TLSFAllocator(size, base=draw.choice((0, 64)), block_size=draw.choice((1, 16, 256)))
    used = {}
    for _ in range(300):
        if used and draw.random() < 0.45:
            start = draw.choice(list(used))
            ranges.free(start)
            del used[start]
            continue
        want, align = draw.randint(1, size // 8), draw.choice((1, 16, 64))
        try:
            start = ranges.alloc(want, align)
        except MemoryError:
            continue
        assert start % align == 0 and ranges.base <= start <= ranges.base + size - want
        assert all(s + n <= start or start + want <= s for s, n in used.items())
        used[start] = want
    for start in used:
        ranges.free(start)
    assert ranges.alloc(size) == ranges.base  # all of it is one piece again
    with pytest.raises(ValueError, match="nothing is allocated at"):
        ranges.free(ranges.base + 1)


# ---- programs and runners


def test_only_a_rendered_program_runs():
    item = kernel_of(Tensor.ones(4).contiguous() + 1)
    program = get_program(item.ast, Device["CPU"].renderer)
    with pytest.raises(TypeError, match="got Ops.SINK"):
        CompiledRunner(item.ast)
    with pytest.raises(TypeError, match="SINK, DEVICE, LINEAR"):
        CompiledRunner(program.replace(src=program.src[:3]))
    with pytest.raises(TypeError, match="needs the SINK"):
        get_program(program, Device["CPU"].renderer)


def test_opts_have_one_place():
    ast = kernel_of(Tensor.ones(4).contiguous() + 1).ast.replace(arg=KernelInfo())
    with pytest.raises(ValueError, match="put them there as opts_to_apply"):
        get_program(ast, Device["CPU"].renderer, opts=[])


def test_equal_kernels_are_one_runner():
    first, second = (kernel_of(Tensor.full((7,), 3.0).contiguous() + 1.25).ast for _ in range(2))
    assert get_runner("CPU", first) is get_runner("CPU", second)
    other = get_runner("CPU:1", first)
    assert other.device == "CPU:1" and other.lib is get_runner("CPU", first).lib


def test_a_loaded_runner_compiles_nothing(monkeypatch):
    x = Tensor([1.0, 2.0]).contiguous().realize()
    item = kernel_of(x + 41).lower()
    data = pickle.dumps(item.prg)
    monkeypatch.setattr(Device["CPU"].compiler, "compile_cached", None)
    loaded = pickle.loads(data)
    item.bufs[0].ensure_allocated()
    loaded(item.bufs, {})
    assert item.bufs[0].numpy().tolist() == [42.0, 43.0]


def test_a_missing_value_is_named():
    x = Tensor([1.0, 2.0, 4.0]).contiguous().realize()
    out = (x[: Variable("n", 1, 3).bind(2)] * 2).sum()
    item = out.schedule_with_vars()[0][-1].lower()
    with pytest.raises(KeyError, match="needs a value of variable 'n'"):
        item.run({})


def test_copies_and_views():
    a, b = (Buffer("CPU", 4, dtypes.int32).allocate() for _ in range(2))
    other = Buffer("CPU:1", 4, dtypes.int32).allocate()
    a.copyin(memoryview(np.arange(4, dtype=np.int32)))
    BufferCopy(16, "CPU", "CPU")([b, a], {})
    BufferXfer(16, "CPU:1", "CPU")([other, b], {}, wait=True)
    assert other.numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="a copy is between equals"):
        BufferCopy(16, "CPU", "CPU")([b, Buffer("CPU", 3, dtypes.int32).allocate()], {})
    with pytest.raises(RuntimeError, match="should be a view of"):
        ViewOp(a)([a, b], {})


def test_counters_and_lines(capsys):
    x = Tensor.ones(64, 64).contiguous().realize()
    y = (x + 1).contiguous()
    GlobalCounters.reset()
    with Context(DEBUG=2):
        y.realize()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("***")]
    assert GlobalCounters.kernel_count == len(lines) == 1
    assert GlobalCounters.global_ops >= 64 * 64 and GlobalCounters.global_mem >= 2 * 4 * 64 * 64
    assert "CPU" in lines[0] and "GFLOPS" in lines[0]


def test_threads(in_threads):
    """Tensors may be realized from several threads at once."""

    def work(k):
        for i in range(10):
            x = Tensor([float(k), float(i)]).contiguous()
            assert ((x + 1) * 2).tolist() == [2.0 * k + 2, 2.0 * i + 2]

    in_threads(work)


# ---- kernels kept on disk

_RUN = """
import tinygrad.codegen as codegen
lowered = []
real = codegen.full_rewrite_to_program
codegen.full_rewrite_to_program = lambda *a: (lowered.append(a), real(*a))[1]
from tinygrad import Tensor, Variable
x = Tensor([[1., 2.], [3., 4.]]).contiguous().realize()
v = Variable("v", 1, 2).bind(2)
print((x @ x).sum(1).tolist(), x[:v].sum().item(), x.half().max(0).tolist(), (x > 2).tolist())
print(len(lowered))
"""
_RIGHT = "[17.0, 37.0] 10.0 [3.0, 4.0] [[False, False], [True, True]]"


def run_process(cache):
    env = {**os.environ, "CACHEDB": str(cache), "CPU": "1"}
    done = subprocess.run([sys.executable, "-c", _RUN], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values, count = done.stdout.strip().splitlines()
    assert values == _RIGHT
    return int(count)


def test_a_second_process_lowers_nothing(tmp_path):
    cache = tmp_path / "cache.db"
    assert run_process(cache) > 0
    assert run_process(cache) == 0


def test_changed_code_does_not_find_old_kernels(tmp_path, monkeypatch):
    """Neither in another process nor in one that loaded the package before the change."""

    def state() -> str:
        program_cache.package_state.cache_clear()
        return program_cache.package_state()

    (tmp_path / "rules.py").write_text("old")
    os.utime(tmp_path / "rules.py", (1, 1))
    monkeypatch.setattr(program_cache, "_installed_files", lambda: os.scandir(tmp_path))
    try:
        first = state()
        assert state() == first
        os.utime(tmp_path / "rules.py", (2, 2))
        second = state()
        assert second != first and state() == second
        (tmp_path / "rules.py").write_text("new")  # now, so after the package was loaded
        assert len({first, second, state(), state()}) == 4
    finally:
        program_cache.package_state.cache_clear()


def _flip(data):
    return bytes(b ^ 0x55 for b in data)


_DAMAGE = {
    "flipped": lambda tbl, val: _flip(val),
    "truncated": lambda tbl, val: val[: len(val) // 2],
    "emptied": lambda tbl, val: b"",
    "another kind": lambda tbl, val: pickle.dumps(17),
}


@pytest.mark.parametrize("damage", list(_DAMAGE))
def test_damaged_entries_are_misses(tmp_path, damage):
    cache = tmp_path / "cache.db"
    first = run_process(cache)
    with sqlite3.connect(cache) as db:
        for tbl, key, val in db.execute("SELECT tbl, key, val FROM entries_2").fetchall():
            changed = (_DAMAGE[damage](tbl, val), tbl, key)
            db.execute("UPDATE entries_2 SET val = ? WHERE tbl = ? AND key = ?", changed)
    assert run_process(cache) == first


@pytest.mark.parametrize(
    "content", [b"", b"garbage" * 1000, b"SQLite format 3\x00" + b"\xff" * 4000]
)
def test_a_garbage_file_is_a_miss(tmp_path, content):
    cache = tmp_path / "cache.db"
    cache.write_bytes(content)
    assert run_process(cache) > 0


def test_wrong_entries_are_misses(monkeypatch):
    ast = kernel_of(Tensor.full((5,), 2.0).contiguous() + 8.5).ast.replace(arg=KernelInfo())
    renderer = Device["CPU"].renderer
    program = get_program(ast, renderer)
    facts = program_cache._facts_out(program)
    good = program_cache.to_rows(program)
    rows = [[], [("SINK",)], good[:-1], [*good, good[0]], [("NO_SUCH_OP", *good[0][1:])], "text", 5]
    blobs = [b"", b"garbage", *[pickle.dumps(r) for r in rows]]
    entries = [good, 5, (), (facts,), (facts, good), (facts, None), *[(facts, b) for b in blobs]]
    for entry in entries:
        monkeypatch.setattr(program_cache, "diskcache_get", lambda table, key, entry=entry: entry)
        assert program_cache.load_program(ast, renderer) is None
        # the facts alone may be whole: then the nodes come from lowering the kernel
        stored = program_cache.load_stored(ast, renderer, lambda: program)
        assert stored is None or stored.make() is program
    for wrong in (facts[:-1], (*facts, 1), 5, [None] * len(facts)):
        entry = (wrong, pickle.dumps(good))
        monkeypatch.setattr(program_cache, "diskcache_get", lambda table, key, entry=entry: entry)
        assert program_cache.load_stored(ast, renderer, lambda: program) is None
    monkeypatch.setattr(
        program_cache, "diskcache_get", lambda table, key: (facts, pickle.dumps(good))
    )
    assert program_cache.load_program(ast, renderer) is program
    stored = program_cache.load_stored(ast, renderer, lambda: pytest.fail("lowered again"))
    assert stored.make() is program and stored.facts == program_facts.ProgramFacts.of(program)


def test_a_stored_program_is_made_when_asked_for(tmp_path):
    code = (
        "from tinygrad import Tensor\n"
        "from tinygrad.engine.realize import get_program\n"
        "import pickle\n"
        "item = (Tensor([[1., 2.], [3., 4.]]).contiguous().realize().sum(0)).schedule()[-1].lower()\n"
        "before = item.prg._p\n"
        "again = pickle.loads(pickle.dumps(item.prg))\n"
        "other = item.prg.on_device('CPU:1')\n"
        "assert again.p is item.prg.p and other.p.device == 'CPU:1' and other.p.src[2] is again.p.src[2]\n"
        "assert other.lib == again.lib == item.prg.lib and again.facts == other.facts == item.prg.facts\n"
        "print(before is None)"
    )
    env = {**os.environ, "CACHEDB": str(tmp_path / "cache.db"), "CPU": "1"}
    for known in ("False", "True"):
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert done.stdout.strip() == known, done.stderr


def test_rows_give_the_same_nodes():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).contiguous().realize()
    for t in (x @ x, x.half().sum(), (x.int() // 3).max(0), x[: Variable("v", 1, 2).bind(2)] * 2):
        program = get_program(t.schedule_with_vars()[0][-1].ast, Device["CPU"].renderer)
        assert program_cache.from_rows(program_cache.to_rows(program)) is program


def test_switches_that_change_code_are_in_the_key():
    ast = kernel_of(Tensor.full((5,), 2.0).contiguous() + 8.5).ast
    renderer = Device["CPU"].renderer
    keys = [program_cache._key(ast, renderer)]
    for switch in ("NOOPT", "BEAM", "TRANSCENDENTAL", "DEVECTORIZE"):
        with Context(**{switch: 5}):
            keys.append(program_cache._key(ast, renderer))
    assert len(set(keys)) == len(keys)
    with Context(DEBUG=1, JIT=0):
        assert program_cache._key(ast, renderer) == keys[0]


# ---- the interpreter


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.float16, dtypes.int8, dtypes.uint32, dtypes.int64]
)
def test_interpreter_and_host_agree(dtype):
    draw = np.random.default_rng(0)
    a = Tensor(draw.integers(-9, 9, (6, 5)).astype(np.int32)).cast(dtype).realize()
    b = Tensor(draw.integers(-9, 9, (5, 4)).astype(np.int32)).cast(dtype).realize()

    def compute(place):
        x, y = a.to(place), b.to(place)
        parts = (
            x @ y,
            (x * 3 - 1).max(1),
            x.permute(1, 0).pad(((1, 0), (0, 2))),
            (x > 2).where(x, -x).sum(),
        )
        return [t.numpy() for t in parts]

    for want, got in zip(compute("CPU"), compute("PYTHON"), strict=True):
        np.testing.assert_array_equal(got, want)


def test_interpreter_checks_bounds():
    buf = UOp(Ops.DEFINE_GLOBAL, dtypes.int32.ptr(4), (), 0)
    store = buf.index(UOp.const(dtypes.int32, 9), ptr=True).store(UOp.const(dtypes.int32, 1))
    runner = get_runner("PYTHON", store.sink(arg=KernelInfo(opts_to_apply=())))
    with pytest.raises(IndexError, match="element 9 of buffer 0, which has 4"):
        runner([Buffer("PYTHON", 4, dtypes.int32).allocate()], {})


# ---- comparing two states of the code

_CAPTURE = """
from tinygrad import Tensor
x = Tensor([[1., 2.], [3., 4.]]).contiguous().realize()
print((x @ x).sum(1).tolist(), (x + 1).max().item())
"""
_REPLAY = """
import sys, tinygrad.renderer.cstyle as cstyle
from tinygrad.engine.process_replay import main
if "--other" in sys.argv:
    plain = cstyle.CStyleLanguage.render
    cstyle.CStyleLanguage.render = lambda self, uops: plain(self, uops) + "// other"
sys.exit(main([]))
"""


@pytest.mark.skipif(
    shutil.which("clang") is None, reason="changes the C renderer, which needs clang"
)
def test_replay_finds_the_kernels_that_changed(tmp_path):
    env = {**os.environ, "CACHEDB": str(tmp_path / "cache.db"), "CPU": "1"}

    def python(code, *arguments, **switches):
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, env={**env, **switches}, capture_output=True, text=True)

    assert python(_CAPTURE, CAPTURE_PROCESS_REPLAY="1").returncode == 0
    same = python(_REPLAY)
    assert same.returncode == 0, same.stderr
    assert '"different": 0' in same.stdout and '"same": 0' not in same.stdout
    other = python(_REPLAY, "--other")
    assert other.returncode == 1 and '"same": 0' in other.stdout
    assert "// other" in other.stdout


# ---- launches


def test_kernels_are_checked_against_the_reference(monkeypatch):
    x = Tensor([1.0, 2.0]).to("PYTHON").contiguous().realize()
    with Context(VALIDATE_WITH_CPU=1):
        assert (x + 17).tolist() == [18.0, 19.0]
    item = kernel_of((x * 3 + 17).contiguous()).lower()
    right = type(item.prg).__call__

    def wrong(self, bufs, *args, **kwargs):
        took = right(self, bufs, *args, **kwargs)
        if self.device == "PYTHON":
            bufs[0].copyin(memoryview(np.zeros(2, np.float32)))
        return took

    monkeypatch.setattr(type(item.prg), "__call__", wrong)
    with (
        Context(VALIDATE_WITH_CPU=1),
        pytest.raises(AssertionError, match="buffer 0 .*against CPU"),
    ):
        run_schedule([item])


def test_kernels_of_the_host_are_checked_too(monkeypatch):
    renderer = type(Device["CPU"].renderer)
    plain = renderer.render

    def broken(self, uops):
        return plain(self, uops) if NOOPT else plain(self, uops).replace("98765", "56789")

    monkeypatch.setattr(renderer, "render", broken)
    x = Tensor([1, 2]).realize()
    # kept where no other process and no other test finds it
    with Context(VALIDATE_WITH_CPU=1, CACHELEVEL=0, DISABLE_FAST_IDIV=17):
        assert (x + 98764).tolist() == [98765, 98766]
        with pytest.raises(AssertionError, match="buffer 0 .*against CPU"):
            (x + 98765).realize()


def test_local_sizes_divide_and_the_fastest_is_taken():
    from tinygrad.engine.realize import pick_local_size

    tried = []

    class Timed:
        display_name = "timed"
        dev = Device["NULL"]

        @staticmethod
        def _prg(*bufs, global_size, local_size, vals, wait):
            tried.append((global_size, local_size))
            assert tuple(g * n for g, n in zip(global_size, local_size)) == (24, 10, 1)
            if local_size == (2, 1, 1):
                raise RuntimeError("refused by the driver")
            return abs(local_size[0] - 8) + abs(local_size[1] - 2) + 1.0

    assert pick_local_size(Timed, [24, 10, 1], [], ()) == [8, 2, 1]
    assert len(tried) == len(set(tried)) > 6


def test_launch_sizes_follow_variables():
    v = Variable("n", 1, 8)
    x = Tensor.ones(8, device="NULL").contiguous().realize()
    item = (x[: v.bind(3)] * 2).contiguous().schedule_with_vars()[0][-1].lower()
    assert item.prg.launch_sizes({"n": 3}) != item.prg.launch_sizes({"n": 5})

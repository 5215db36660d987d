"""Queue devices: registers, signals, queues, programs and graphs, on a device whose hardware is this file."""

import array
import ctypes
import os

import numpy as np
import pytest
from tinygrad.backends.cpu._pool import Kernel
from tinygrad.backends.cpu.compiler import ClangJITCompiler, CPULLVMCompiler
from tinygrad.backends.cpu.loader import LoadedObject
from tinygrad.backends.cpu.renderer import ClangRenderer, CPULLVMRenderer

from tinygrad import Device, Tensor, TinyJit, Variable, dtypes
from tinygrad.device import Backend, Compiled, CompilerPair, CompilerSet, ProfileGraphEvent
from tinygrad.engine.realize import get_runner
from tinygrad.helpers import Context, mv_address
from tinygrad.runtime.graph.hcq import HCQGraph
from tinygrad.runtime.support.hcq import (
    FileIOInterface,
    HCQAllocator,
    HCQBuffer,
    HCQCompiled,
    HCQProgram,
    HCQSignal,
    HWQueue,
    MMIOInterface,
)
from tinygrad.runtime.support.usb import USBMMIOInterface

SIGNAL, WAIT, STAMP, EXEC, COPY = range(5)


class SoftQueue(HWQueue):
    """Words are an operation, the number of its arguments, and those."""

    def op(self, code, *arguments):
        self.q(code, len(arguments), *arguments)
        return self

    def signal(self, signal, value):
        return self.op(SIGNAL, signal.value_addr, value)

    def wait(self, signal, value):
        return self.op(WAIT, signal.value_addr, value)

    def timestamp(self, signal):
        return self.op(STAMP, signal.timestamp_addr)

    def exec(self, prg, args_state, global_size, local_size):
        threads = 0 if global_size is None else global_size[0]
        addresses = [b.va_addr for b in args_state.bufs]
        return self.op(EXEC, self.keep(prg), len(addresses), threads, *addresses, *args_state.vals)

    def copy(self, dest, src, copy_size):
        return self.op(COPY, dest, src, copy_size)

    def _submit(self, dev):
        dev.pending.append((self, list(self.words)))
        SoftDevice.drain()


class SoftProgram(HCQProgram):
    def __init__(self, dev, name, lib):
        super().__init__(dev, name, lib)
        self.object = LoadedObject(lib)
        self.kernel = Kernel(self.object.function(name), self.object)


class SoftAllocator(HCQAllocator):
    def _alloc(self, size, options):
        memory = (ctypes.c_uint8 * size)()
        address = ctypes.addressof(memory)
        return HCQBuffer(
            address, size, meta=memory, view=MMIOInterface(address, size), owner=self.dev
        )

    def _map(self, buf):
        return buf


class SoftDevice(HCQCompiled):
    """Runs what can run, of all devices in turn, whenever something is submitted."""

    every = []

    def __init__(self, name):
        pairs = [
            CompilerPair(ClangRenderer, ClangJITCompiler),
            CompilerPair(CPULLVMRenderer, CPULLVMCompiler),
        ]
        self.pending, self.clock = [], 0
        SoftDevice.every.append(self)
        super().__init__(
            name,
            SoftAllocator(self),
            CompilerSet(pairs),
            lambda function, lib: SoftProgram(self, function, lib),
            HCQSignal,
            SoftQueue,
            SoftQueue,
        )

    @staticmethod
    def drain():
        moved = True
        while moved:
            moved = False
            for dev in SoftDevice.every:
                # queues of one device run independently: any of them may go on
                for entry in list(dev.pending):
                    moved |= dev.advance(entry)

    def advance(self, entry):
        queue, words = entry
        moved = False
        while words:
            code, count = words[:2]
            arguments = words[2 : 2 + count]
            if code == WAIT and ctypes.c_uint64.from_address(arguments[0]).value < arguments[1]:
                return moved
            self.perform(queue, code, arguments)
            del words[: 2 + count]
            moved = True
        self.pending.remove(entry)
        return moved

    def perform(self, queue, code, arguments):
        self.clock += 1000
        if code == SIGNAL:
            ctypes.c_uint64.from_address(arguments[0]).value = arguments[1]
        elif code == STAMP:
            ctypes.c_uint64.from_address(arguments[0]).value = self.clock
        elif code == COPY:
            ctypes.memmove(*arguments)
        elif code == EXEC:
            kept, buffers, threads = arguments[:3]
            rest = arguments[3:]
            values = tuple(rest[:buffers]), tuple(rest[buffers:])
            queue.kept[kept].kernel.launch(*values, threads, 2, False)


@pytest.fixture(scope="module")
def soft():
    Device.__dict__["_devices"] = (*Device._devices, "SOFT")
    Device._records["SOFT"] = Backend("SOFT", None, SoftDevice)
    yield Device["SOFT"], Device["SOFT:1"]
    Device.__dict__.pop("_devices")
    Device._records.pop("SOFT")
    for name in ("SOFT", "SOFT:1"):
        Device._opened.pop(name).finalize()


def real(values, device):
    return Tensor(np.array(values, np.float32)).to(device).contiguous().realize()


# ---- registers and files


def test_memory_as_registers():
    memory = bytearray(64)
    regs = MMIOInterface(mv_address(memoryview(memory)), 64, fmt="I")
    regs[1] = 0xDEADBEEF
    regs[2:5] = array.array("I", [1, 2, 3])
    regs[5:7] = [8, 9]
    assert (len(regs), regs[1], regs[2:7]) == (16, 0xDEADBEEF, [1, 2, 3, 8, 9])
    part = regs.view(8, 12)
    part[:] = [4, 5, 6]
    assert regs[2:5] == [4, 5, 6]
    assert regs.view(fmt="B")[4:8] == [0xEF, 0xBE, 0xAD, 0xDE]
    with pytest.raises(ValueError, match="outside of 64 bytes"):
        regs.view(60, 8)


class Bridge:
    def __init__(self, size):
        self.mem = bytearray(size)

    def read(self, address, size):
        return bytes(self.mem[address : address + size])

    def write(self, address, data):
        self.mem[address : address + len(data)] = data

    def pcie_mem_req(self, address, value=None, size=1):
        if value is None:
            return int.from_bytes(self.mem[address : address + size], "little")
        self.mem[address : address + size] = value.to_bytes(size, "little")
        return None

    def pcie_mem_write(self, address, values, size):
        for i, value in enumerate(values):
            self.pcie_mem_req(address + i * size, value, size)


@pytest.mark.parametrize("pcimem", [False, True])
@pytest.mark.parametrize("fmt", ["B", "I"])
def test_registers_behind_a_bridge(pcimem, fmt):
    bridge = Bridge(64)
    regs = USBMMIOInterface(bridge, 0, 64, fmt, pcimem)
    regs[1] = 7
    regs[2:5] = [1, 2, 3]
    assert regs[1] == 7 and list(regs[2:5]) == [1, 2, 3]
    size = regs.itemsize
    assert bridge.mem[size] == 7 and bridge.mem[4 * size] == 3
    assert list(regs.view(2 * size, 3 * size)[:]) == [1, 2, 3]
    with pytest.raises(IndexError):
        regs[len(regs)]
    with pytest.raises(ValueError, match="2 values for 3 elements"):
        regs[0:3] = [1, 2]


def test_files(tmp_path):
    path = tmp_path / "node"
    file = FileIOInterface(str(path), os.O_RDWR | os.O_CREAT)
    file.write("hello world")
    assert file.read(offset=6) == "world"
    file.write(b"J", binary=True, offset=0)
    assert file.read(5, binary=True, offset=0) == b"Jello"
    assert FileIOInterface.exists(str(path)) and not FileIOInterface.exists(str(path) + "x")
    assert FileIOInterface(str(tmp_path)).listdir() == ["node"]
    with pytest.raises(OSError, match="can't map"):
        file.mmap(0, 0, 1, 1, 0)


# ---- signals, queues, programs


def test_signals(soft):
    dev = soft[0]
    signal = dev.new_signal(value=3)
    signal.wait(3)
    with pytest.raises(RuntimeError, match="it is at 3, not 4"):
        signal.wait(4, timeout=2)
    SoftQueue().signal(signal, 9).submit(dev)
    assert signal.value == 9


def test_queues_with_variables(soft):
    dev = soft[0]
    where = Variable("where", 0, (1 << 64) - 1, dtypes.uint64)
    value = Variable("value", 0, 1 << 32, dtypes.uint32)
    queue = SoftQueue().signal(HCQSignal(HCQBuffer(where, 16)), value + 1)
    signals = [dev.new_signal() for _ in range(3)]
    for number, signal in enumerate(signals):
        queue.submit(dev, {"where": signal.base_buf.va_addr, "value": 10 * number})
    assert [s.value for s in signals] == [1, 11, 21]
    with pytest.raises(RuntimeError, match="address is a variable"):
        HCQSignal(HCQBuffer(where, 16)).value  # noqa: B018


def test_a_queue_waits_for_another(soft):
    first, second = soft
    a, b = first.new_signal(), first.new_signal()
    SoftQueue().wait(a, 1).signal(b, 5).submit(first)
    assert b.value == 0
    SoftQueue().signal(a, 1).submit(second)
    assert b.value == 5


def test_the_timeline_starts_again(soft):
    dev = soft[0]
    dev.synchronize()
    dev.timeline_value = (1 << 31) + 5
    SoftQueue().signal(dev.timeline_signal, dev.next_timeline()).submit(dev)
    dev.synchronize()
    assert dev.timeline_value == 1
    assert (real([1.0, 2.0], "SOFT") + 1).tolist() == [2.0, 3.0]


def test_programs_and_transfers(soft):
    x = real(np.arange(12).reshape(3, 4), "SOFT")
    np.testing.assert_array_equal(
        (x @ x.T).numpy(), np.arange(12).reshape(3, 4) @ np.arange(12).reshape(3, 4).T
    )
    y = (x + 1).to("SOFT:1").realize()
    assert (y * 2).to("CPU").tolist() == ((np.arange(12).reshape(3, 4) + 1) * 2).tolist()


# ---- graphs


def test_captures_become_graphs(soft):
    @TinyJit
    def f(x, y):
        a = (x + y).realize()
        b = (a * 2).to("SOFT:1").realize()
        c = (a - 1).realize()
        d = (b + 10).realize()
        return c, d

    for call in range(6):
        x, y = real([call, 1.0], "SOFT"), real([2.0, call], "SOFT")
        c, d = f(x, y)
        total = np.array([call + 2.0, call + 1.0])
        assert c.tolist() == (total - 1).tolist() and d.tolist() == (total * 2 + 10).tolist()
    assert isinstance(f.jit_cache[0].prg, HCQGraph) and len(f.jit_cache) == 1


def test_graphs_with_variables_and_feedback(soft):
    @TinyJit
    def f(x, v):
        y = (x[:v].sum() + x).realize()
        return (y * 2).realize()

    x = want = None
    for call in range(6):
        n = call % 3 + 1
        start = np.arange(4, dtype=np.float32) if want is None or call % 2 == 0 else want
        x = real(start, "SOFT") if want is None or call % 2 == 0 else x
        x = f(x, Variable("n", 1, 4).bind(n))
        want = (start[:n].sum() + start) * 2
        assert x.tolist() == want.tolist()
    assert isinstance(f.jit_cache[0].prg, HCQGraph)


def test_graphs_are_profiled(soft):
    with Context(PROFILE=1):
        f = TinyJit(lambda x: ((x + 1).realize() * 2).realize())
        for call in range(4):
            assert f(real([call], "SOFT")).item() == (call + 1) * 2
    events = [e for e in Compiled.profile_events if isinstance(e, ProfileGraphEvent)]
    assert len(events) >= 2
    last = events[-1]
    assert [e.device for e in last.ents] == ["SOFT", "SOFT"] and last.deps == [[], [0]]
    assert all(last.sigs[e.st_id] < last.sigs[e.en_id] for e in last.ents)


# ---- what drivers find on the host


def test_pci_devices_and_their_regions(tmp_path):
    from tinygrad.runtime.support.system import PCIIfaceBase, pci_scan

    for name, device in (
        ("0000:02:00.0", "0x0002"),
        ("0000:01:00.0", "0x0001"),
        ("0000:03:00.0", "0x0009"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "vendor").write_text("0x1234\n")
        (folder / "device").write_text(device + "\n")
        zero = "0x0000000000000000 0x0000000000000000 0x0\n"
        (folder / "resource").write_text("0x00000000f0000000 0x00000000f0000fff 0x200\n" + zero * 5)
        (folder / "resource0").write_bytes(bytes(4096))
        (folder / "config").write_bytes(bytes([0x34, 0x12, 0x01, 0x00]))
    assert [p.name for p in pci_scan(0x1234, [1, 2], tmp_path)] == ["0000:01:00.0", "0000:02:00.0"]
    assert pci_scan(0x1234, [1], tmp_path / "missing") == []
    found = PCIIfaceBase(None, 1, 0x1234, [1, 2], tmp_path).pci_dev
    assert found.bars == {0: (0xF0000000, 4096)}
    assert found.read_config(0, 2) == 0x1234
    registers = found.map_bar(0, fmt="I")
    registers[3] = 0xABCD
    assert (found.folder / "resource0").read_bytes()[12:14] == b"\xcd\xab"
    with pytest.raises(RuntimeError, match="has the regions"):
        found.map_bar(2)
    with pytest.raises(RuntimeError, match="the bus has 2"):
        PCIIfaceBase(None, 2, 0x1234, [1, 2], tmp_path)


def test_libc_keeps_addresses_whole():
    from tinygrad.runtime.autogen import libc

    a, b = ctypes.create_string_buffer(b"abc"), ctypes.create_string_buffer(b"abc")
    assert libc.memcmp(ctypes.addressof(a), ctypes.addressof(b), 3) == 0
    assert libc.memset(ctypes.addressof(a), 0x7A, 2) == ctypes.addressof(a) and a.raw == b"zzc\0"
    with pytest.raises(AttributeError, match="no prototype"):
        libc.fork  # noqa: B018


# ---- queues of the host


def test_host_queue_waits_for_a_late_signal():
    dev = Device["CPU"]
    gate = dev.new_signal()
    done = dev.next_timeline()
    dev.hw_compute_queue_t().wait(gate, 5).signal(dev.timeline_signal, done).submit(dev)
    with pytest.raises(RuntimeError, match="waited 50 ms"):
        dev.timeline_signal.wait(done, timeout=50)
    gate.value = 5
    dev.synchronize()
    assert dev.timeline_signal.value == done


def test_host_queue_runs_kernels_again_with_other_values():
    dev = Device["CPU"]
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([0.0, 0.0]).realize()
    out = a + 1
    item = out.schedule()[-1].lower()
    out.uop.buffer.allocate()
    runner, handle = item.prg, [t.uop.buffer._buf for t in (out, a, b)]
    value = Variable("done", 0, 0xFFFFFFFF, dtypes.uint32)
    queue = dev.hw_compute_queue_t().wait(dev.timeline_signal, value - 1)
    for target, source in ((0, 1), (2, 0), (1, 2)):  # out = a + 1, b = out + 1, a = b + 1
        args = runner._prg.fill_kernargs([handle[target], handle[source]])
        queue.exec(runner._prg, args, *runner.p.sizes)
    queue.signal(dev.timeline_signal, value)
    for _ in range(20):
        queue.submit(dev, {"done": dev.next_timeline()})
    dev.synchronize()
    assert a.tolist() == [61.0, 62.0]
    assert b.tolist() == [60.0, 61.0]


def test_reading_waits_for_the_queue():
    """Memory is looked at when the lists that were submitted before are done, however long they take."""
    device = Device["CPU"]
    a = Tensor([0.0, 1.0], device="CPU").realize()
    b = a + 1
    runner = get_runner("CPU", b.schedule()[-1].ast)
    b.uop.buffer.allocate()
    there, back = ([x.uop.buffer._buf for x in pair] for pair in ((b, a), (a, b)))
    queue = device.hw_compute_queue_t()
    for bufs in (there, back) * 50:
        queue.exec(runner._prg, runner._prg.fill_kernargs(bufs), None, None)
    queue.signal(device.timeline_signal, device.timeline_value)
    queue.submit(device)
    device.timeline_value += 1
    assert a.uop.buffer.as_buffer().cast("f").tolist() == [100.0, 101.0]

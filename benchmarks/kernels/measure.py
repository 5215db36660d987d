"""Times kernels through the JIT in this interpreter and prints one JSON object; run by `benchmarks/kernels/run.py`.

Public API only, so that it runs unchanged on the published release. Each case is captured once and replayed; the least of
several replays is kept, in seconds, the host's share included.
"""

import json
import sys
import time

from tinygrad import Device, Tensor, TinyJit

CASES = {}


def case(name):
    def keep(make):
        CASES[name] = make
        return make

    return keep


def filled(*shape):
    return Tensor.rand(*shape).realize()


def matmul(m, n, k):
    def make():
        a, b = filled(m, k), filled(k, n)
        return lambda: a @ b

    return make


for m, n, k in ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (1000, 777, 333)):
    CASES[f"matmul {m}x{n}x{k}"] = matmul(m, n, k)


@case("linear x @ w.T 128x768x768")
def linear():
    x, w = filled(128, 768), filled(768, 768)
    return lambda: x @ w.T


@case("gemv 1x4096x4096")
def gemv():
    x, w = filled(1, 4096), filled(4096, 4096)
    return lambda: x @ w.T


@case("conv 3x3 64x56x56")
def conv():
    x, w = filled(1, 64, 56, 56), filled(64, 64, 3, 3)
    return lambda: x.conv2d(w, padding=1)


@case("conv 1x1 64->256 56x56")
def pointwise():
    x, w = filled(1, 64, 56, 56), filled(256, 64, 1, 1)
    return lambda: x.conv2d(w)


@case("gelu 4M")
def gelu():
    x = filled(2048, 2048)
    return lambda: x.gelu()


@case("add 4M")
def add():
    x, y = filled(2048, 2048), filled(2048, 2048)
    return lambda: x + y


@case("sum rows 4M")
def rows():
    x = filled(2048, 2048)
    return lambda: x.sum(1)


@case("sum columns 4M")
def columns():
    x = filled(2048, 2048)
    return lambda: x.sum(0)


@case("softmax 2048x2048")
def softmax():
    x = filled(2048, 2048)
    return lambda: x.softmax()


@case("layer norm 2048x1024")
def layernorm():
    x = filled(2048, 1024)
    return lambda: x.layernorm()


@case("transpose 2048x2048")
def transpose():
    x = filled(2048, 2048)
    return lambda: x.T.contiguous()


def measure(make) -> float:
    work = make()
    step = TinyJit(lambda: work().realize())
    device = Device[Device.DEFAULT]
    for _ in range(3):
        step()
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < 1.0:
        begin = time.perf_counter()
        step()
        device.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(CASES)
    print(json.dumps({name: measure(CASES[name]) for name in wanted}))

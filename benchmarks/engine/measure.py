"""Measures the host's work around kernels in this interpreter and prints one JSON object; run by `benchmarks/engine/run.py`.

Public API only, so that it runs unchanged on the published release. An item is a function that gives {what: seconds}; kernels
are as small as can be, so that what is left is the cost of launching them. Of a repeated call the least time is kept.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from tinygrad import Device, Tensor, TinyJit

ITEMS = {}


def item(name):
    def keep(function):
        ITEMS[name] = function
        return function

    return keep


def least_time(call, seconds=1.0):
    """The least time of one call, repeated for about `seconds`, the device's share included."""
    device = Device[Device.DEFAULT]
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < seconds:
        begin = time.perf_counter()
        call()
        device.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


def number(value):
    return Tensor([value]).realize()


def chain(count):
    """Kernels that wait for each other: a call, and its share for one kernel."""

    def measure():
        def work(x, y):
            for _ in range(count):
                x = (x + y).realize()
            return x

        step, x, y = TinyJit(work), number(1.0), number(2.0)
        for _ in range(3):
            step(x, y)
        took = least_time(lambda: step(x, y))
        return {"a call": took, "a kernel": took / count}

    return measure


def arguments(count):
    """One kernel, but many tensors that have to be looked at."""

    def measure():
        step = TinyJit(lambda *tensors: (tensors[0] + 1).realize())
        tensors = [number(float(i)) for i in range(count)]
        for _ in range(3):
            step(*tensors)
        return {"a call": least_time(lambda: step(*tensors))}

    return measure


for length in (500, 5000):
    ITEMS[f"replay {length} kernels"] = chain(length)
for length in (1, 20, 200):
    ITEMS[f"call with {length} tensors"] = arguments(length)


@item("call among 1000 other tensors")
def surrounded():
    """What a call costs more in a program that has many tensors."""
    others = [number(float(i)) for i in range(500)]
    others += [t + 1 for t in others]
    result = arguments(1)()
    assert len(others) == 1000
    return result


def square():
    return Tensor.empty(64, 64).contiguous().realize()


def chains(start):
    """Ten chains of 1000 sums and products, added up."""
    x, y, ends = square(), square(), []
    for n in range(10):
        z = x * (start + n)
        for _ in range(500):
            z = (z + y) * 1.5
        ends.append(z)
    return sum(ends[1:], ends[0])


def tree(start):
    """The sum of 5000 products of 64 tensors."""
    inputs = [square() for _ in range(64)]
    terms = [inputs[n % 64] * (start + n) for n in range(5000)]
    while len(terms) > 1:
        last = terms[len(terms) - len(terms) % 2 :]
        terms = [a + b for a, b in zip(terms[::2], terms[1::2])] + last
    return terms[0]


def layers(start):
    """Six times 100 layers: a product, a relu, a transpose and a mean; some 1200 kernels."""
    y, w, ends = square(), square(), []
    for n in range(6):
        x = y * (start + n)
        for _ in range(100):
            x = (x @ w).relu()
            x = x.permute(1, 0) * 0.5 + x
            x = x - x.mean(1, keepdim=True)
        ends.append(x)
    return sum(ends[1:], ends[0])


def scheduled(build):
    """The CPU time to schedule a graph of some 10,000 operations that was not seen before; of three the least."""

    def measure():
        took = []
        for start in range(3):
            result = build(start + 2.5)
            begin = cpu_seconds()
            result.schedule()
            took.append(cpu_seconds() - begin)
        return {"a schedule": min(took)}

    return measure


for build in (chains, tree, layers):
    ITEMS[f"schedule {build.__name__}, 10000 operations"] = scheduled(build)


def cpu_seconds():
    """Of this process and of the compilers that it started: other work on the machine does not count."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def until_first_launch():
    """From the graph of ResNet-50 to kernels that could be launched; whole: from the start of the process on."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compile"))
    from measure import ResNet50, zeros

    getattr(Device[Device.DEFAULT], "renderer")  # noqa: B009  opening the device is not compile time
    model = ResNet50()
    zeros(model)
    image = model(Tensor.empty(1, 3, 224, 224))
    begin = cpu_seconds()
    for step in image.schedule():
        step.lower()
    end = cpu_seconds()
    return {"until first launch": end - begin, "whole process": end}


@item("warm start of ResNet-50 in a second process")
def warm_start():
    """The first process finds an empty cache, later ones what it left; of those the least is kept."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, __file__, "--first-launch"]
    runs = [json.loads(subprocess.check_output(command, env=env)) for _ in range(4)]
    times = {f"{what}, cold": seconds for what, seconds in runs[0].items()}
    for what in runs[0]:
        times[f"{what}, warm"] = min(run[what] for run in runs[1:])
    return times


if __name__ == "__main__":
    wanted = sys.argv[1]
    print(json.dumps(until_first_launch() if wanted == "--first-launch" else ITEMS[wanted]()))

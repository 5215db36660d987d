"""Measures compile time of one model in this interpreter and prints one JSON object; run by `benchmarks/compile/run.py`.

Uses the public API only, so that it runs unchanged on the published release. Stages: build (tensor graph), schedule
(kernel graph and ordering), lower (every kernel to a linear list and its source text; nothing is compiled or run).
"""

import json
import resource
import sys
import time

import tinygrad
from tinygrad import Tensor, nn
from tinygrad.device import Device


class Bottleneck:
    expansion = 4

    def __init__(self, in_planes, planes, stride):
        self.conv1 = nn.Conv2d(in_planes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, stride=stride, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.down = []
        if stride != 1 or in_planes != planes * 4:
            self.down = [
                nn.Conv2d(in_planes, planes * 4, 1, stride=stride, bias=False),
                nn.BatchNorm2d(planes * 4),
            ]

    def __call__(self, x):
        out = self.bn1(self.conv1(x)).relu()
        out = self.bn2(self.conv2(out)).relu()
        out = self.bn3(self.conv3(out))
        return (out + x.sequential(self.down)).relu()


class ResNet50:
    def __init__(self):
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.blocks, planes_in = [], 64
        for planes, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                self.blocks.append(Bottleneck(planes_in, planes, stride if i == 0 else 1))
                planes_in = planes * 4
        self.fc = nn.Linear(2048, 1000)

    def __call__(self, x):
        x = self.bn1(self.conv1(x)).relu()
        x = x.pad((1, 1, 1, 1)).max_pool2d((3, 3), 2)
        x = x.sequential(self.blocks)
        return self.fc(x.mean([2, 3]))


class ConvNet:
    def __init__(self):
        self.l1, self.l2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.n1, self.n2 = nn.BatchNorm2d(32), nn.BatchNorm2d(64)
        self.l3 = nn.Linear(1600, 10)

    def __call__(self, x):
        x = self.n1(self.l1(x)).relu().max_pool2d((2, 2))
        x = self.n2(self.l2(x)).relu().max_pool2d((2, 2))
        return self.l3(x.flatten(1))


def zeros(model):
    """Weights as empty buffers: their values do not matter here, and making them would be kernels of its own."""
    for p in nn.state.get_parameters(model):
        p.replace(Tensor.empty(*p.shape, dtype=p.dtype))


def graph(name):
    if name == "resnet50":
        model = ResNet50()
        zeros(model)
        return [model(Tensor.empty(64, 3, 224, 224))]
    model = ConvNet()
    zeros(model)
    params = nn.state.get_parameters(model)
    for p in params:
        p.requires_grad = True
    Tensor.training = True
    loss = model(Tensor.empty(128, 1, 28, 28)).sum()
    loss.backward()
    return [loss, *[p.grad for p in params if p.grad is not None]]


def lower(items):
    """Every distinct kernel to source text, with the heuristic's optimisations."""
    from tinygrad.engine.realize import get_program

    renderer = Device[Device.DEFAULT].renderer
    asts = list(dict.fromkeys(ei.ast for ei in items if ei.ast.op.name == "SINK"))
    for ast in asts:
        get_program(ast, renderer)
    return len(asts)


def main(name):
    getattr(Device[Device.DEFAULT], "renderer")  # noqa: B009  opening the device is not compile time
    t0 = time.process_time()
    outputs = graph(name)
    t1 = time.process_time()
    items = Tensor.schedule(*outputs)
    t2 = time.process_time()
    kernels = lower(items)
    t3 = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = {"build": t1 - t0, "schedule": t2 - t1, "lower": t3 - t2, "total": t3 - t1}
    print(
        json.dumps(
            {
                **out,
                "kernels": kernels,
                "items": len(items),
                "peak_mb": peak / 1024,
                "from": tinygrad.__file__,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])

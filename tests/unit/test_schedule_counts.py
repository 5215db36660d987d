"""How many kernels ordinary programs take.

Each row is a program and the number of its kernels; copies are not counted. The published release takes
as many or more for every one of them. Fewer is better: where a change saves a kernel, lower the number.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinygrad import Context, Tensor, Variable, dtypes, nn
from tinygrad.uop.ops import Ops

Program = Callable[[], object]
ROWS: list[tuple[str, int, Program]] = []


def row(name: str, kernels: int, program: Program) -> None:
    ROWS.append((name, kernels, program))


def both(name: str, forward: int, backward: int, f: Callable, *shapes: tuple) -> None:
    """A function of tensors, and its gradients alone."""
    row(name, forward, lambda: f(*[Tensor.empty(*shape) for shape in shapes]))
    row(f"{name} gradient", backward, lambda: gradients(f, *shapes))


def gradients(f: Callable, *shapes: tuple) -> list[Tensor]:
    xs = [Tensor.empty(*shape, requires_grad=True) for shape in shapes]
    result = f(*xs)
    (result if result.shape == () else result.square().sum()).backward()
    return [x.grad for x in xs]


def made(*shape: int) -> Tensor:
    """A tensor in memory."""
    return Tensor.empty(*shape).contiguous().realize()


def ints(*shape: int) -> Tensor:
    return Tensor.empty(*shape, dtype=dtypes.int32)


def kernel_count(result) -> int:
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return sum(item.ast.op is Ops.SINK for item in Tensor.schedule_with_vars(*results)[0])


# *** norms, softmax, losses ***

both("softmax", 3, 4, lambda x: x.softmax(-1), (32, 64))
both("softmax of columns", 3, 4, lambda x: x.softmax(0), (32, 64))
both("log softmax", 3, 4, lambda x: x.log_softmax(-1), (32, 64))
both("logsumexp", 2, 3, lambda x: x.logsumexp(1), (32, 64))
both("layer norm", 3, 6, lambda x: x.layernorm(), (32, 64))
both("layer norm, affine", 3, 9, lambda x, w, b: x.layernorm() * w + b, (32, 64), (64,), (64,))
both("rms norm", 2, 3, lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(), (32, 64))
both("variance", 2, 4, lambda x: x.var(1), (32, 64))
both("deviation and mean", 2, 4, lambda x: sum(x.std_mean(1)), (32, 64))
both("cosine", 1, 5, lambda a, b: (a * b).sum(1) / (a.square().sum(1) * b.square().sum(1)).sqrt(),
     (8, 16), (8, 16))  # fmt: skip
row("group norm", 3, lambda: nn.GroupNorm(4, 16)(Tensor.empty(2, 16, 8, 8)))
row("instance norm", 3, lambda: nn.InstanceNorm(16)(Tensor.empty(2, 16, 8, 8)))
row("softmax twice", 6, lambda: Tensor.empty(8, 16).softmax().softmax())
both("cross entropy", 3, 3, lambda x: x.sparse_categorical_crossentropy(ints(32)), (32, 10))
both("smoothed cross entropy", 3, 3,
     lambda x: x.sparse_categorical_crossentropy(ints(32), label_smoothing=0.1), (32, 10))  # fmt: skip
both("cross entropy of weights", 3, 3, lambda x: x.cross_entropy(Tensor.empty(32, 10)), (32, 10))
both("negative likelihood", 3, 3, lambda x: x.log_softmax(1).nll_loss(ints(32)), (32, 10))
both("binary cross entropy", 1, 1,
     lambda x: x.binary_crossentropy_logits(Tensor.empty(32, 10)), (32, 10))  # fmt: skip
both("squared error", 1, 1, lambda x: (x - Tensor.empty(32, 10)).square().mean(), (32, 10))


# *** matrices, attention, convolutions ***

HEADS = [(2, 4, 16, 32)] * 3
both("attention", 4, 10, lambda q, k, v: q.scaled_dot_product_attention(k, v), *HEADS)
both("causal attention", 4, 10,
     lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), *HEADS)  # fmt: skip
both("masked attention", 4, 10,
     lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m),
     *HEADS, (2, 4, 16, 16))  # fmt: skip
both("grouped attention", 4, 10,
     lambda q, k, v: q.scaled_dot_product_attention(k, v, enable_gqa=True),
     (2, 8, 16, 32), *HEADS[1:])  # fmt: skip
both("feed forward", 2, 6, lambda x, a, b: (x @ a).gelu() @ b, (8, 32), (32, 64), (64, 32))
both("gated feed forward", 2, 8, lambda x, a, b, c: ((x @ a).silu() * (x @ b)) @ c,
     (8, 32), (32, 64), (32, 64), (64, 32))  # fmt: skip
both("matrix product, layer norm", 4, 8, lambda x, w: (x @ w).layernorm(), (8, 32), (32, 32))
row("product and bias and relu", 1,
    lambda: (Tensor.empty(16, 16) @ Tensor.empty(16, 16) + Tensor.empty(16)).relu())  # fmt: skip
row("product of a norm", 2, lambda: rms(Tensor.empty(4, 32)) @ Tensor.empty(32, 16))
row("three factors", 1,
    lambda: Tensor.einsum("ij,jk,kl->il", *[Tensor.empty(n, n + 1) for n in (4, 5, 6)]))  # fmt: skip
both("convolution", 1, 4, lambda x, w, b: x.conv2d(w, b, padding=1),
     (2, 4, 16, 16), (8, 4, 3, 3), (8,))  # fmt: skip
both("two convolutions", 2, 6, lambda x, v, w: x.conv2d(v, padding=1).relu().conv2d(w, padding=1),
     (2, 4, 16, 16), (8, 4, 3, 3), (4, 8, 3, 3))  # fmt: skip
both("convolution and pool", 1, 5, lambda x, w: x.conv2d(w).relu().max_pool2d(),
     (2, 4, 16, 16), (8, 4, 3, 3))  # fmt: skip
both("convolution by channel", 1, 3, lambda x, w: x.conv2d(w, groups=4, padding=1),
     (2, 4, 16, 16), (4, 1, 3, 3))  # fmt: skip
both("transposed convolution", 1, 3, lambda x, w: x.conv_transpose2d(w, stride=2),
     (2, 4, 8, 8), (4, 8, 3, 3))  # fmt: skip
both("average pool", 1, 1, lambda x: x.avg_pool2d(), (2, 4, 16, 16))
both("maximum pool", 1, 3, lambda x: x.max_pool2d(), (2, 4, 16, 16))
both("interpolation", 1, 2, lambda x: x.interpolate((8, 8)), (2, 4, 16, 16))


def rms(x: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def winograd(backward: bool):
    x, w = (Tensor.empty(*s, requires_grad=True) for s in ((1, 4, 9, 9), (4, 4, 3, 3)))
    with Context(WINO=1):
        result = x.conv2d(w, padding=1)
        if not backward:
            return result
        result.mean().backward()
    return [x.grad, w.grad]


row("winograd", 2, lambda: winograd(False))
row("winograd gradient", 4, lambda: winograd(True))


def norm_block(training: bool, backward: bool, with_convolution: bool):
    with Tensor.train(training):
        norm, conv = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        Tensor.realize(*nn.state.get_parameters([norm, conv]))
        x = Tensor.empty(2, 8, 8, 8, requires_grad=True)
        y = norm(conv(x) if with_convolution else x).relu()
        if backward:
            y.square().sum().backward()
            used = [x, norm.weight, norm.bias, *([conv.weight] if with_convolution else [])]
            return [t.grad for t in used if t.grad is not None]
        return [y, *([norm.running_mean, norm.running_var] if training else [])]


NORM_BLOCKS = {
    (False, False, False): 1, (False, False, True): 1, (False, True, False): 1,
    (False, True, True): 2, (True, False, False): 5, (True, False, True): 6,
    (True, True, False): 5, (True, True, True): 7,
}  # fmt: skip
for (_training, _backward, _conv), _count in NORM_BLOCKS.items():
    _name = f"batch norm{', training' * _training}{', convolution' * _conv}"
    row(_name + " gradient" * _backward, _count,
        lambda t=_training, b=_backward, c=_conv: norm_block(t, b, c))  # fmt: skip


def residual_block(training: bool, backward: bool):
    with Tensor.train(training):
        layers = [
            nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), Tensor.relu,
            nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8),
        ]  # fmt: skip
        weights = nn.state.get_parameters(layers)
        Tensor.realize(*weights)
        x = Tensor.empty(2, 8, 8, 8, requires_grad=True)
        y = (x.sequential(layers) + x).relu()
        if not backward:
            return y
        y.square().sum().backward()
        return [x.grad, *[w.grad for w in weights if w.grad is not None]]


row("residual block", 2, lambda: residual_block(False, False))
row("residual block gradient", 4, lambda: residual_block(False, True))
row("residual block, training", 7, lambda: residual_block(True, False))
row("residual block, training gradient", 15, lambda: residual_block(True, True))


def transformer_block(backward: bool):
    width, heads = 32, 4
    w = [made(width, width) for _ in range(4)] + [made(width, 128), made(128, width)]
    g = [made(width) for _ in range(4)]
    for t in w + g:
        t.requires_grad = True
    x = Tensor.empty(2, 8, width, requires_grad=True)
    h = x.layernorm() * g[0] + g[1]
    q, k, v = [(h @ m).reshape(2, 8, heads, width // heads).transpose(1, 2) for m in w[:3]]
    mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
    h = x + mixed.transpose(1, 2).reshape(2, 8, width) @ w[3]
    y = h + ((h.layernorm() * g[2] + g[3]) @ w[4]).gelu() @ w[5]
    if not backward:
        return y
    y.square().sum().backward()
    return [t.grad for t in [x, *w, *g]]


row("transformer block", 16, lambda: transformer_block(False))
row("transformer block gradient", 43, lambda: transformer_block(True))


def recurrent(steps: int):
    cell = nn.LSTMCell(16, 16)
    Tensor.realize(*nn.state.get_parameters(cell))
    state = (Tensor.empty(4, 16), Tensor.empty(4, 16))
    for _ in range(steps):
        state = cell(Tensor.empty(4, 16), state)
    return state


row("lstm", 3, lambda: recurrent(1))
row("lstm, three steps", 9, lambda: recurrent(3))


# *** optimizers ***


def step(kind: Callable, **options):
    with Tensor.train():
        weights = [made(16, 16) for _ in range(2)]
        for w in weights:
            w.requires_grad = True
        optimizer = kind(weights, **options)
        for w in weights:
            w.grad = made(16, 16)
        Tensor.realize(*nn.state.get_parameters(optimizer))
        return optimizer.schedule_step()


row("sgd", 2, lambda: step(nn.optim.SGD))
row("sgd with momentum", 4, lambda: step(nn.optim.SGD, momentum=0.9))
row("sgd with momentum, fused", 3, lambda: step(nn.optim.SGD, momentum=0.9, fused=True))
row("adam", 8, lambda: step(nn.optim.Adam))
row("adam, fused", 7, lambda: step(nn.optim.Adam, fused=True))
row("adamw", 8, lambda: step(nn.optim.AdamW))
row("lamb", 12, lambda: step(nn.optim.LAMB))
row("lars", 6, lambda: step(nn.optim.LARS))


def training_step(kind: Callable, convolution: bool):
    with Tensor.train():
        if convolution:
            layers = [
                nn.Conv2d(1, 8, 5), Tensor.relu, nn.BatchNorm2d(8), Tensor.max_pool2d,
                lambda x: x.flatten(1), nn.Linear(8 * 12 * 12, 10),
            ]  # fmt: skip
        else:
            layers = [nn.Linear(16, 32), Tensor.relu, nn.Linear(32, 10)]
        weights = nn.state.get_parameters(layers)
        optimizer = kind(weights)
        Tensor.realize(*weights, *nn.state.get_parameters(optimizer))
        x = Tensor.empty(8, 1, 28, 28) if convolution else Tensor.empty(8, 16)
        loss = x.sequential(layers).sparse_categorical_crossentropy(ints(8)).backward()
        return [loss, *optimizer.schedule_step()]


row("train a perceptron by sgd", 15, lambda: training_step(nn.optim.SGD, False))
row("train a perceptron by adam", 29, lambda: training_step(nn.optim.Adam, False))
row("train a convolution by sgd", 30, lambda: training_step(nn.optim.SGD, True))
row("train a convolution by adam", 50, lambda: training_step(nn.optim.Adam, True))


# *** indexing, scans, sorting ***

row("embedding", 2, lambda: nn.Embedding(100, 16)(ints(4, 8)))
row("one hot", 1, lambda: ints(8).one_hot(10))
row("one hot product", 1,
    lambda: (ints(8).one_hot(100).reshape(8, 100, 1) * Tensor.empty(1, 100, 16)).sum(1))  # fmt: skip
both("gather", 1, 1, lambda x: x.gather(1, ints(32, 3)), (32, 10))
both("rows", 1, 1, lambda x: x[ints(8)], (100, 16))
both("elements", 1, 1, lambda x: x[ints(8), ints(8)], (100, 16))
row("rows and a slice", 1, lambda: Tensor.empty(10, 20, 30)[ints(8), :, 2:5])
row("scatter and add", 1,
    lambda: Tensor.empty(8, 10).scatter_reduce(1, ints(8, 3), Tensor.empty(8, 3), "sum"))  # fmt: skip
row("arange", 1, lambda: Tensor.arange(1000))
row("arange and tensor", 1, lambda: Tensor.arange(1000) + Tensor.empty(1000))
row("arange times matrix", 1, lambda: Tensor.arange(16).reshape(4, 4).float() @ Tensor.empty(4, 4))
row("identity times matrix", 1, lambda: Tensor.eye(8) @ Tensor.empty(8, 8))
row("triangle", 1, lambda: Tensor.empty(8, 8).tril())
row("masked softmax", 3, lambda: (Tensor.empty(8, 8) + Tensor.full((8, 8), -1e9).triu(1)).softmax())
row("histogram", 1, lambda: ints(64).one_hot(10).sum(0))
for _length, _count in ((1, 1), (64, 1), (511, 1), (512, 1), (513, 3), (2000, 3), (10**6, 3)):
    row(f"running sum of {_length}", _count, lambda n=_length: Tensor.empty(n).cumsum(0))
row("running sum gradient", 5, lambda: gradients(lambda x: x.cumsum(0), (2000,)))
row("running product", 1, lambda: Tensor.empty(64).cumprod(0))
row("running logsumexp", 2, lambda: Tensor.empty(64).logcumsumexp(0))
row("sort", 24, lambda: Tensor.empty(64).sort())
row("topk", 24, lambda: Tensor.empty(4, 64).topk(4))
row("argmax", 2, lambda: Tensor.empty(4, 64).argmax(1))
row("argmax of a product", 3, lambda: (Tensor.empty(4, 32) @ Tensor.empty(32, 64)).argmax(-1))
both("maximum", 1, 3, lambda x: x.max(1), (4, 64))
row("random numbers", 1, lambda: Tensor.rand(16, 16))


def dropped():
    with Tensor.train():
        return Tensor.empty(16, 16).dropout(0.5)


row("dropout", 2, dropped)


# *** reductions and views ***

SQUARE = (16, 16)
both("sum", 1, 1, lambda x: x.sum(1), SQUARE)
row("two sums, one after the other", 1, lambda: Tensor.empty(4, 8, 16).sum(2).sum(1))
both("sum of rows and of all", 3, 4, lambda x: x.sum(1) + x.sum(1).sum(), SQUARE)
row("sums of rows and columns", 1, lambda: (lambda x: x.sum(0) + x.sum(1))(Tensor.empty(16, 16)))
row("sum and maximum", 1, lambda: (lambda x: x.sum() + x.max())(Tensor.empty(16, 16)))
row("tensor and its sums", 2, lambda: (lambda x: x + x.sum(1, keepdim=True))(Tensor.empty(16, 16)))
row("halves of sums", 2, lambda: (lambda y: y[:8] + y[8:])(Tensor.empty(16, 16).sum(1)))
row("padded sums", 1, lambda: Tensor.empty(16, 16).sum(1).pad(((2, 2),)) + 1)
row("mirrored sums", 2, lambda: (lambda y: y + y.flip(0))(Tensor.empty(16, 16).sum(1)))
row("sum of a repeated axis", 1, lambda: Tensor.empty(16, 1).expand(16, 32).sum(1))
row("sums side by side", 1, lambda: Tensor.empty(16, 16).sum(1).cat(Tensor.empty(16, 16).sum(0)))
row("long sum", 2, lambda: Tensor.empty(100_000).sum())
row("long variance", 3, lambda: (lambda x: (x - x.mean()).square().mean())(Tensor.empty(100_000)))
row("divide by the norm", 1, lambda: (lambda x: x / x.square().sum().sqrt())(Tensor.empty(64, 64)))
row("divide by the sum", 2, lambda: (lambda x: x / x.sum())(Tensor.empty(64, 64)))
row("average where positive", 1,
    lambda: (lambda x: (x * (x > 0)).sum() / (x > 0).sum())(Tensor.empty(64)))  # fmt: skip
row("joined", 1, lambda: Tensor.cat(*[Tensor.empty(4, 4) + n for n in range(3)]) * 3)
row("stacked", 1, lambda: Tensor.stack(*[Tensor.empty(4) + n for n in range(5)]))
row("rotary positions", 1, lambda: rotated(Tensor.empty(2, 4, 16), Tensor.empty(4, 8)))
row("three results", 3, lambda: (lambda x: [x + 1, x * 2, x.sum()])(Tensor.empty(16, 16)))
row("two readers of sums", 3, lambda: (lambda s: [s + 1, s * 2])(Tensor.empty(16, 16).sum(1)))
row("contiguous", 2, lambda: (Tensor.empty(8, 8) + 1).contiguous() + 2)
row("contiguous gradient", 3,
    lambda: gradients(lambda x: (x * 2).contiguous_backward().sum(1), (8, 8)))  # fmt: skip
row("second gradient", 1,
    lambda: (lambda x: (x**3).sum().gradient(x)[0].sum().gradient(x)[0])(Tensor.empty(8)))  # fmt: skip


def rotated(x: Tensor, c: Tensor) -> Tensor:
    a, b = x[..., :8], x[..., 8:]
    return Tensor.cat(a * c - b * c, b * c + a * c, dim=-1)


def clipped() -> list[Tensor]:
    a, b = Tensor.empty(16, 16), Tensor.empty(8, 8)
    scale = (a.square().sum() + b.square().sum()).sqrt()
    return [a * scale, b * scale]


row("clip by the norm of all", 2, clipped)


# *** assignment, symbolic shapes ***


def written(f: Callable[[Tensor], object]):
    x = made(8, 8)
    others = f(x)
    return [x, *others] if isinstance(others, list) else [x]


row("assign", 1, lambda: written(lambda x: x.assign(x + 1)))
row("assign of the transpose", 2, lambda: written(lambda x: x.assign(x.T.contiguous() + 1)))
row("moving average", 1, lambda: written(lambda x: x.assign(x * 0.9 + Tensor.empty(8, 8) * 0.1)))


def read_and_written(x: Tensor) -> list[Tensor]:
    before = (x + 1).sum()
    x.assign(x * 2)
    return [before]


row("read, then assign", 2, lambda: written(read_and_written))


def cached_attention(start):
    cache, q, k, v = made(2, 1, 16, 4, 8), *[Tensor.empty(1, 1, 4, 8) for _ in range(3)]
    now = cache[:, :, start : start + 1].assign(Tensor.stack(k, v))
    keys, values = (cache[n, :, : start + 1].transpose(1, 2) for n in (0, 1))
    return [q.transpose(1, 2).scaled_dot_product_attention(keys, values), now]


def upto(n: int = 5):
    return Variable("n", 1, 15).bind(n)


row("cached attention", 5, lambda: cached_attention(5))
row("cached attention, symbolic", 5, lambda: cached_attention(upto()))
row("symbolic sum", 1, lambda: Tensor.empty(16)[: upto()].sum())
row("symbolic product", 1, lambda: Tensor.empty(8, 16)[:, : upto()] @ Tensor.empty(16, 8)[: upto()])
row("symbolic softmax", 3, lambda: Tensor.empty(8, 16)[:, : upto()].softmax(-1))


@pytest.mark.parametrize(("name", "kernels", "program"), ROWS, ids=[name for name, *_ in ROWS])
def test_kernels(name: str, kernels: int, program: Program):
    Tensor.manual_seed(0)
    assert kernel_count(program()) == kernels

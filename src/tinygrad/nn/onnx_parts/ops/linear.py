"""Matrix products, sums of products by formula and determinants."""

from __future__ import annotations

import math

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product of matrices, batched as in NumPy."""
    return a.matmul(b).cast(a.dtype)


@operator("Gemm")
def gemm(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
         transA: int = 0, transB: int = 0, broadcast: int = 1) -> Tensor:  # fmt: skip
    """alpha * a @ b + beta * c, either factor transposed on demand."""
    product = (a.transpose() if transA else a).matmul(b.transpose() if transB else b)
    scaled = product if alpha == 1 else product * alpha
    if c is not None and beta:
        scaled = scaled + (c if beta == 1 else c * beta)
    return scaled.cast(a.dtype)


@operator("Einsum")
def einsum(*operands: Tensor, equation: str) -> Tensor:
    """Sums of products by formula."""
    return Tensor.einsum(equation, *operands)


@operator("FusedMatMul", "TransposeMatMul", domain=_CONTRIB)
def fused_matmul(a: Tensor, b: Tensor, alpha: float = 1.0, transA: int = 0, transB: int = 0,
                 transBatchA: int = 0, transBatchB: int = 0) -> Tensor:  # fmt: skip
    """alpha * a @ b, either factor transposed on demand."""

    def turned(x, batch, matrix):
        if batch and x.ndim > 2:
            x = x.permute(*range(1, x.ndim - 1), 0, x.ndim - 1)
        return x.transpose(-1, -2) if matrix and x.ndim > 1 else x

    product = turned(a, transBatchA, transA).matmul(turned(b, transBatchB, transB))
    return product if alpha == 1 else product * alpha


@operator("FusedGemm", domain=_CONTRIB)
def fused_gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0, activation="Relu",
               activation_alpha=0.01) -> Tensor:  # fmt: skip
    """Gemm and an activation."""
    return activated(gemm(a, b, c, alpha, beta, transA, transB), activation, [activation_alpha])


def activated(x: Tensor, name: str, parameters: list[float] | None = None) -> Tensor:
    """The activations that fused operators name. Raises NotImplementedError for others."""
    given = parameters or []
    if name == "LeakyRelu":
        return x.leaky_relu(given[0] if given else 0.01)
    if name == "HardSigmoid":
        return (x * (given[0] if given else 0.2) + (given[1] if len(given) > 1 else 0.5)).clip(0, 1)
    if name == "Clip":
        return x.clip(given[0], given[1])
    plain = {"Relu": x.relu, "Sigmoid": x.sigmoid, "Tanh": x.tanh}
    if name not in plain:
        raise NotImplementedError(f"the activation {name} of a fused operator is not supported")
    return plain[name]()


@operator("Det")
def determinant(x: Tensor) -> Tensor:
    """Determinants of square matrices, by elimination with the largest pivot."""
    n = x.shape[-1]
    batch = x.shape[:-2]
    rows = x.reshape(math.prod(batch), n, n)
    result = Tensor.ones(rows.shape[0], dtype=x.dtype)
    for _ in range(n):
        size = rows.shape[-1]
        place = rows[:, :, 0].abs().argmax(1, keepdim=True)
        chosen = Tensor.arange(size).reshape(1, size) == place
        pivot_row = chosen.unsqueeze(-1).where(rows, 0).sum(1, keepdim=True)
        pivot = pivot_row[:, :, 0:1]
        # the first row takes the place of the pivot row
        swapped = chosen.unsqueeze(-1).where(rows[:, 0:1], rows)
        moved = (place.reshape(-1) != 0).where(-1, 1)
        result = result * pivot.reshape(-1) * moved
        safe = (pivot == 0).where(1, pivot)
        rest = swapped[:, 1:]
        rows = (rest - rest[:, :, 0:1] / safe * pivot_row)[:, :, 1:]
    return result.reshape(batch).cast(x.dtype)


@operator("MatMulNBits", domain=_CONTRIB)
def matmul_n_bits(a: Tensor, b: Tensor, scales: Tensor, zero_points: Tensor | None = None,
                  g_idx: Tensor | None = None, bias: Tensor | None = None, K: int = 0, N: int = 0,
                  bits: int = 4, block_size: int = 32, accuracy_level: int = 0,
                  weight_prepacked: int = 0) -> Tensor:  # fmt: skip
    """a times a matrix of numbers of few bits, each block of a column with a scale of its own."""
    if bits not in (2, 4, 8) or weight_prepacked:
        raise NotImplementedError(
            f"MatMulNBits of {bits} bits, prepacked {weight_prepacked}, is not supported"
        )
    blocks = -(-K // block_size)
    weights = unpacked(b.reshape(N, blocks, -1), bits)[:, :, :block_size].cast(a.dtype)
    middle = float(1 << (bits - 1))
    offset: Tensor | float
    if zero_points is None:
        offset = middle
    elif zero_points.dtype is dtypes.uint8:
        offset = unpacked(zero_points.reshape(N, -1), bits)[:, :blocks].unsqueeze(-1).cast(a.dtype)
    else:
        offset = zero_points.reshape(N, blocks, 1).cast(a.dtype)
    matrix = ((weights - offset) * scales.reshape(N, blocks, 1)).reshape(N, -1)[:, :K]
    product = a.matmul(matrix.transpose())
    return (product if bias is None else product + bias).cast(a.dtype)


def unpacked(packed: Tensor, bits: int) -> Tensor:
    """The numbers in each byte along the last axis, the lowest bits first."""
    parts = [packed.rshift(i) & ((1 << bits) - 1) for i in range(0, 8, bits)]
    return parts[0].stack(*parts[1:], dim=-1).flatten(-2) if len(parts) > 1 else packed

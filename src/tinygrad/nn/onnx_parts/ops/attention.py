"""Attention of the standard, and the rotary embedding."""

from __future__ import annotations

import math

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.kinds import element_dtype
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


def by_head(x: Tensor, heads: int | None) -> Tensor:
    """(batch, length, heads * size) as (batch, heads, length, size); four axes stay."""
    if x.ndim == 4 or heads is None:
        return x
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    batch, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * size)


def shared(x: Tensor, heads: int) -> Tensor:
    """Keys or values of few heads, each for several heads of queries."""
    times = heads // x.shape[1]
    return x if times == 1 else x.repeat_interleave(times, dim=1)


def _causal(queries: int, keys: int, past: int) -> Tensor:
    return Tensor.arange(keys).reshape(1, keys) <= Tensor.arange(queries).reshape(queries, 1) + past


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores plus a mask of numbers, or without what a mask of truths excludes."""
    if mask is None:
        return scores
    missing = scores.shape[-1] - mask.shape[-1]
    if mask.dtype is dtypes.bool:
        if missing > 0:
            mask = mask.pad(((0, 0),) * (mask.ndim - 1) + ((0, missing),), value=False)
        return mask.where(scores, -math.inf)
    if missing > 0:
        mask = mask.pad(((0, 0),) * (mask.ndim - 1) + ((0, missing),), value=-math.inf)
    return scores + mask.cast(scores.dtype)


def _softmax(scores: Tensor) -> Tensor:
    """Softmax along the last axis; a line without any key gives zeros."""
    best = scores.max(-1, keepdim=True)
    best = (best == -math.inf).where(0, best)
    shares = (scores - best).exp()
    total = shares.sum(-1, keepdim=True)
    return shares / (total == 0).where(1, total)


@operator("Attention", since=23)
def attention(q, k, v, attn_mask=None, past_key=None, past_value=None, nonpad_kv_seqlen=None,
              is_causal: int = 0, kv_num_heads=None, q_num_heads=None, qk_matmul_output_mode: int = 0,
              scale=None, softcap: float = 0.0, softmax_precision=None):  # fmt: skip
    """softmax(q @ k.T * scale + mask) @ v by head; also keys, values and scores."""
    flat = q.ndim == 3
    q, k, v = by_head(q, q_num_heads), by_head(k, kv_num_heads), by_head(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    keys, values = shared(k, q.shape[1]), shared(v, q.shape[1])
    factor = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = (q * factor).matmul((keys * factor).transpose(-1, -2))
    stages = {0: scores}
    length = scores.shape[-1]
    if nonpad_kv_seqlen is not None:
        valid = Tensor.arange(length).reshape(1, 1, 1, -1) < nonpad_kv_seqlen.reshape(-1, 1, 1, 1)
        scores = valid.where(scores, -math.inf)
    if is_causal:
        scores = _causal(scores.shape[-2], length, past).where(scores, -math.inf)
    stages[1] = scores = _masked(scores, attn_mask)
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    stages[2] = scores
    wide = scores.cast(element_dtype(softmax_precision)) if softmax_precision else scores
    stages[3] = shares = _softmax(wide).cast(q.dtype)
    result = shares.matmul(values).cast(q.dtype)
    return (joined(result) if flat else result), k, v, stages[qk_matmul_output_mode].cast(q.dtype)


# *** rotary embedding ***
def _turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: int) -> Tensor:
    """Pairs of elements (neighbours, or of both halves) turned by angles."""
    if interleaved:
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return (a * cos - b * sin).stack(a * sin + b * cos, dim=-1).reshape(x.shape)
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return (a * cos - b * sin).cat(a * sin + b * cos, dim=-1)


@operator("RotaryEmbedding", since=23)
def rotary_embedding(x, cos_cache, sin_cache, position_ids=None, interleaved: int = 0, num_heads: int = 0,
                     rotary_embedding_dim: int = 0) -> Tensor:  # fmt: skip
    """The first elements of each head turned by angles that grow with the position."""
    flat = x.ndim == 3
    heads = x.reshape(*x.shape[:2], num_heads, -1) if flat else x.transpose(1, 2)
    size = rotary_embedding_dim or heads.shape[-1]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos_cache.unsqueeze(2)[..., : size // 2], sin_cache.unsqueeze(2)[..., : size // 2]
    turned = _turned(heads[..., :size], cos, sin, interleaved)
    if size < heads.shape[-1]:
        turned = turned.cat(heads[..., size:], dim=-1)
    return turned.reshape(x.shape) if flat else turned.transpose(1, 2)


@operator("RotaryEmbedding", domain=_CONTRIB)
def rotary_embedding_at(x, position_ids, cos_cache, sin_cache, interleaved: int = 0,
                        is_packed_batching: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0,
                        scale: float = 1.0) -> Tensor:  # fmt: skip
    """The rotary embedding with the order of inputs of ONNX Runtime; one position is a start."""
    length = x.shape[-2] if x.ndim == 4 else x.shape[1]
    if position_ids.ndim == 1:
        position_ids = position_ids.reshape(1, 1) + Tensor.arange(length).reshape(1, -1)
        position_ids = position_ids.expand(x.shape[0], length)
    if not num_heads and x.ndim == 3:
        num_heads = x.shape[-1] // (rotary_embedding_dim or 2 * cos_cache.shape[-1])
    return rotary_embedding(
        x, cos_cache, sin_cache, position_ids, interleaved, num_heads, rotary_embedding_dim
    )

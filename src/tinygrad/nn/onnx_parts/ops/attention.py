"""Attention layers: the one of ONNX and those of ONNX Runtime's transformers."""

from __future__ import annotations

import math

from tinygrad.dtype import dtypes
from tinygrad.nn.onnx_parts.kinds import element_dtype
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


def _by_head(x: Tensor, heads: int | None) -> Tensor:
    """(batch, length, heads * size) as (batch, heads, length, size); four axes stay."""
    if x.ndim == 4 or heads is None:
        return x
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    batch, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * size)


def _shared(x: Tensor, heads: int) -> Tensor:
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
    q, k, v = _by_head(q, q_num_heads), _by_head(k, kv_num_heads), _by_head(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    keys, values = _shared(k, q.shape[1]), _shared(v, q.shape[1])
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
    return (_joined(result) if flat else result), k, v, stages[qk_matmul_output_mode].cast(q.dtype)


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


# *** transformers of ONNX Runtime ***
def _padding_mask(mask: Tensor | None, queries: int, keys: int) -> Tensor | None:
    """Which keys are there: from lengths, or truths of two, three or four axes."""
    if mask is None:
        return None
    if mask.ndim == 1:
        return (Tensor.arange(keys).reshape(1, -1) < mask.reshape(-1, 1)).reshape(-1, 1, 1, keys)
    truth = mask != 0
    if mask.ndim == 2:
        return truth.reshape(mask.shape[0], 1, 1, -1)
    return truth.unsqueeze(1) if mask.ndim == 3 else truth[:, :, :queries, :keys]


def _attend(
    q, k, v, mask, bias, scale, causal: bool, past: int, excluded: float, softcap: float = 0.0
) -> Tensor:
    factor = scale or 1 / math.sqrt(q.shape[-1])
    scores = q.matmul(k.transpose(-1, -2)) * factor
    if softcap:
        scores = (scores / softcap).tanh() * softcap
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = mask.where(scores, scores + excluded)
    if causal:
        scores = _causal(q.shape[-2], k.shape[-2], past).where(scores, -math.inf)
    return _softmax(scores).matmul(v).cast(q.dtype)


@operator("Attention", domain=_CONTRIB)
def bert_attention(x, weights, bias=None, mask_index=None, past=None, attention_bias=None,
                   past_sequence_length=None, do_rotary: int = 0, mask_filter_value: float = -10000.0,
                   num_heads: int = 1, past_present_share_buffer: int = 0, qkv_hidden_sizes=None,
                   rotary_embedding_dim: int = 0, scale: float = 0.0, unidirectional: int = 0):  # fmt: skip
    """Self-attention with one matrix for queries, keys and values; also the keys and values."""
    if do_rotary or past_present_share_buffer:
        raise NotImplementedError("Attention with do_rotary or a shared buffer is not supported")
    sizes = qkv_hidden_sizes or [weights.shape[1] // 3] * 3
    projected = x.matmul(weights)
    projected = projected if bias is None else projected + bias
    q, k, v = (_by_head(part, num_heads) for part in projected.split(list(sizes), dim=-1))
    before = 0
    if past is not None:
        before = past.shape[3]
        k, v = past[0].cat(k, dim=2), past[1].cat(v, dim=2)
    mask = _padding_mask(mask_index, q.shape[2], k.shape[2])
    y = _attend(
        q, k, v, mask, attention_bias, scale, bool(unidirectional), before, mask_filter_value
    )
    present = k.stack(v) if k.shape == v.shape else None
    return _joined(y), present


@operator("MultiHeadAttention", domain=_CONTRIB)
def multi_head_attention(query, key=None, value=None, bias=None, key_padding_mask=None,
                         attention_bias=None, past_key=None, past_value=None, num_heads: int = 1,
                         mask_filter_value: float = -10000.0, scale: float = 0.0,
                         unidirectional: int = 0):  # fmt: skip
    """Attention of projected queries, keys and values, also packed; with a cache."""
    if query.ndim == 5:
        query, key, value = (query[:, :, :, i].transpose(1, 2) for i in range(3))
    elif key is not None and key.ndim == 5:
        key, value = (key[:, :, :, i].transpose(1, 2) for i in range(2))
    if bias is not None:
        width = query.shape[-1] if query.ndim == 3 else query.shape[1] * query.shape[3]
        parts = bias.split([width, width, bias.shape[0] - 2 * width])
        query, key, value = (
            x + (b if x.ndim == 3 else b.reshape(1, num_heads, 1, -1))
            for x, b in zip((query, key, value), parts)
        )
    q, k, v = (_by_head(x, num_heads) for x in (query, key, value))
    before = 0
    if past_key is not None:
        before = past_key.shape[2]
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    mask = _padding_mask(key_padding_mask, q.shape[2], k.shape[2])
    y = _attend(
        q, k, v, mask, attention_bias, scale, bool(unidirectional), before, mask_filter_value
    )
    return _joined(y), k, v


@operator("GroupQueryAttention", domain=_CONTRIB)
def group_query_attention(query, key, value, past_key, past_value, seqlens_k, total_length=None,
                          cos_cache=None, sin_cache=None, position_ids=None, attention_bias=None,
                          do_rotary: int = 0, kv_num_heads: int = 1, local_window_size: int = -1,
                          num_heads: int = 1, rotary_interleaved: int = 0, scale: float = 0.0,
                          smooth_softmax: int = 0, softcap: float = 0.0):  # fmt: skip
    """Causal attention of few heads of keys with a cache, as large language models use it."""
    if smooth_softmax or local_window_size >= 0:
        raise NotImplementedError(
            "GroupQueryAttention with a window or smooth softmax is not supported"
        )
    if key is None:
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        query, key, value = query.split(
            [num_heads * size, kv_num_heads * size, kv_num_heads * size], dim=-1
        )
    q, k, v = _by_head(query, num_heads), _by_head(key, kv_num_heads), _by_head(value, kv_num_heads)
    before = 0 if past_key is None else past_key.shape[2]
    if do_rotary:
        places = Tensor.arange(q.shape[2]).reshape(1, -1) + before
        places = places.expand(q.shape[0], q.shape[2]) if position_ids is None else position_ids
        q = rotary_embedding(q, cos_cache, sin_cache, places, rotary_interleaved)
        k = rotary_embedding(k, cos_cache, sin_cache, places, rotary_interleaved)
    if before:
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    length = k.shape[2]
    mask = Tensor.arange(length).reshape(1, -1) <= seqlens_k.reshape(-1, 1)
    y = _attend(
        q, _shared(k, num_heads), _shared(v, num_heads), mask.reshape(-1, 1, 1, length),
        attention_bias, scale, True, before, -math.inf, softcap,
    )  # fmt: skip
    return _joined(y), k, v

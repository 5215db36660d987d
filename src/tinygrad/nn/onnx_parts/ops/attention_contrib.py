"""Attention layers of ONNX Runtime's transformers, as its optimizer and the exporters of language models write them.

Queries, keys and values are (batch, heads, length, size) inside. Masks are truths that broadcast to (batch, heads, queries,
keys), or None.
"""

from __future__ import annotations

import math

from tinygrad.nn.onnx_parts.host import Known
from tinygrad.nn.onnx_parts.ops.attention import by_head, joined, rotary_embedding, shared
from tinygrad.nn.onnx_parts.registry import Domain, operator
from tinygrad.tensor import Tensor

_CONTRIB = Domain.MICROSOFT_CONTRIB_OPS


def _padding_mask(mask: Tensor | None, batch: int, queries: int, keys: int) -> Tensor | None:
    """Which keys are there: by lengths, by ends and starts, or truths of two, three or four axes."""
    if mask is None:
        return None
    places = Tensor.arange(keys).reshape(1, -1)
    if mask.ndim == 1 and mask.shape[0] == 2 * batch:
        ends, starts = mask[:batch].reshape(-1, 1), mask[batch:].reshape(-1, 1)
        return ((places < ends) & (places >= starts)).reshape(-1, 1, 1, keys)
    if mask.ndim == 1:
        # lengths; a longer vector goes on with sums of lengths, which say the same
        return (places < mask[:batch].reshape(-1, 1)).reshape(-1, 1, 1, keys)
    truth = mask != 0
    if mask.ndim == 2:
        return truth.reshape(mask.shape[0], 1, 1, -1)
    return truth.unsqueeze(1) if mask.ndim == 3 else truth[:, :, keys - queries : keys, :keys]


def _shares(scores: Tensor, sink: Tensor | float | None = None) -> Tensor:
    """Softmax along the last axis; `sink` is one more score that takes a share and has no value."""
    best = scores.max(-1, keepdim=True)
    if sink is not None:
        best = best.maximum(sink)
    best = (best == -math.inf).where(0, best)
    shares = (scores - best).exp()
    total = shares.sum(-1, keepdim=True)
    if sink is not None:
        lifted = (best * 0 + sink - best).exp()
        total = total + lifted
    return shares / (total == 0).where(1, total)


def _scores(q: Tensor, k: Tensor, scale: float | None, softcap: float = 0.0) -> Tensor:
    scores = q.matmul(k.transpose(-1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    return (scores / softcap).tanh() * softcap if softcap else scores


def _masked(
    scores: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool, excluded: float
):
    """Scores plus a bias; what the mask or the order excludes gets next to no share."""
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = mask.where(scores, scores + excluded)
    if causal:
        queries, keys = scores.shape[-2:]
        before = Tensor.arange(keys).reshape(1, -1) <= Tensor.arange(queries).reshape(-1, 1) + (
            keys - queries
        )
        scores = before.where(scores, -math.inf)
    return scores


def _refuse(name: str, **given) -> None:
    """Raises NotImplementedError naming the inputs and attributes that are there and not supported."""
    found = [key for key, value in given.items() if value is not None and not _is_off(value)]
    if found:
        raise NotImplementedError(f"{name} with {', '.join(found)} is not supported")


def _is_off(value) -> bool:
    return not isinstance(value, Tensor) and not value


def self_attention(projected: Tensor, mask_index, past, attention_bias, num_heads: int, scale: float = 0.0,
                   mask_filter_value: float = -10000.0, unidirectional: int = 0, qkv_hidden_sizes=None,
                   do_rotary: int = 0, past_present_share_buffer: int = 0, rotary_embedding_dim: int = 0):  # fmt: skip
    """Attention of queries, keys and values that lie side by side along the last axis; also keys and values."""
    _refuse("Attention", do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    sizes = qkv_hidden_sizes or [projected.shape[-1] // 3] * 3
    q, k, v = (by_head(part, num_heads) for part in projected.split(list(sizes), dim=-1))
    if past is not None:
        k, v = past[0].cat(k, dim=2), past[1].cat(v, dim=2)
    mask = _padding_mask(mask_index, q.shape[0], q.shape[2], k.shape[2])
    scores = _masked(
        _scores(q, k, scale), mask, attention_bias, bool(unidirectional), mask_filter_value
    )
    present = k.stack(v) if k.shape == v.shape else None
    return joined(_shares(scores).matmul(v).cast(q.dtype)), present


@operator("Attention", domain=_CONTRIB)
def bert_attention(x, weights, bias=None, mask_index=None, past=None, attention_bias=None,
                   past_sequence_length=None, **options):  # fmt: skip
    """Self-attention with one matrix for queries, keys and values; also the keys and values."""
    projected = x.matmul(weights)
    projected = projected if bias is None else projected + bias
    return self_attention(projected, mask_index, past, attention_bias, **options)


def _unpacked(query, key, value):
    """Queries, keys and values that were packed into one or two tensors of five axes."""
    if query.ndim == 5:
        return tuple(query[:, :, :, i].transpose(1, 2) for i in range(3))
    if key is not None and key.ndim == 5:
        return (query, *(key[:, :, :, i].transpose(1, 2) for i in range(2)))
    return query, key, value


@operator("MultiHeadAttention", domain=_CONTRIB)
def multi_head_attention(query, key=None, value=None, bias=None, key_padding_mask=None,
                         attention_bias=None, past_key=None, past_value=None, past_sequence_length=None,
                         cache_indirection=None, num_heads: int = 1, mask_filter_value: float = -10000.0,
                         scale: float = 0.0, unidirectional: int = 0):  # fmt: skip
    """Attention of projected queries, keys and values, also packed; with a cache; also keys, values and shares."""
    _refuse(
        "MultiHeadAttention",
        past_sequence_length=past_sequence_length,
        cache_indirection=cache_indirection,
    )
    query, key, value = _unpacked(query, key, value)
    if bias is not None:
        width = query.shape[-1] if query.ndim == 3 else query.shape[1] * query.shape[3]
        parts = bias.split([width, width, bias.shape[0] - 2 * width])
        # keys and values of four axes come from a cache, and have had their bias
        query, key, value = (
            x if x.ndim == 4 and i and x.shape[2] != query.shape[2]
            else x + (b if x.ndim == 3 else b.reshape(1, num_heads, 1, -1))
            for i, (x, b) in enumerate(zip((query, key, value), parts))
        )  # fmt: skip
    q, k, v = (by_head(x, num_heads) for x in (query, key, value))
    if past_key is not None:
        k, v = past_key.cat(k, dim=2), past_value.cat(v, dim=2)
    mask = _padding_mask(key_padding_mask, q.shape[0], q.shape[2], k.shape[2])
    scores = _masked(
        _scores(q, k, scale), mask, attention_bias, bool(unidirectional), mask_filter_value
    )
    shares = _shares(scores)
    return joined(shares.matmul(v).cast(q.dtype)), k, v, shares


@operator("DecoderMaskedMultiHeadAttention", domain=_CONTRIB)
def decoder_attention(query, key=None, value=None, mask_index=None, attention_bias=None, past_key=None,
                      past_value=None, past_sequence_length=None, beam_width=None, cache_indirection=None,
                      bias=None, output_qk: int = 0, past_present_share_buffer: int = 0,
                      **options):  # fmt: skip
    """MultiHeadAttention of one query for each line."""
    _refuse("DecoderMaskedMultiHeadAttention", cache_indirection=cache_indirection,
            past_present_share_buffer=past_present_share_buffer)  # fmt: skip
    return multi_head_attention(
        query, key, value, bias, mask_index, attention_bias, past_key, past_value, **options
    )


# *** language models ***
def _appended(past: Tensor | None, new: Tensor, before: Tensor, length: int) -> Tensor:
    """A cache of `length` places with the rows of `new` from place `before` (batch,) on."""
    if past is None:
        return new
    if past.shape[0] == 1 and length == past.shape[2] + new.shape[2]:
        return past.cat(new, dim=2)
    grown = past.pad(((0, 0), (0, 0), (0, length - past.shape[2]), (0, 0)))
    offset = Tensor.arange(length).reshape(1, -1) - before.reshape(-1, 1)
    fresh = ((offset >= 0) & (offset < new.shape[2])).reshape(-1, 1, length, 1)
    rows = offset.clip(0, new.shape[2] - 1).reshape(-1, 1, length, 1)
    taken = new.gather(2, rows.expand(new.shape[0], new.shape[1], length, new.shape[3]))
    return fresh.where(taken, grown)


def _normed(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    if weight is None:
        return x
    wide = x.float()
    return (wide * ((wide * wide).mean(-1, keepdim=True) + epsilon).rsqrt()).cast(x.dtype) * weight


def _split_heads(query, key, value, heads: int, kv_heads: int):
    if key is None:
        size = query.shape[-1] // (heads + 2 * kv_heads)
        query, key, value = query.split([heads * size, kv_heads * size, kv_heads * size], dim=-1)
    return by_head(query, heads), by_head(key, kv_heads), by_head(value, kv_heads)


def _cache_length(past: Tensor | None, new: int, total) -> int:
    """Places of the new cache: more than before, unless the old one has room for all."""
    if past is None:
        return new
    known = int(total.array.item()) if isinstance(total, Known) else None
    return past.shape[2] if known is not None and known <= past.shape[2] else past.shape[2] + new


@operator("GroupQueryAttention", domain=_CONTRIB, hosted=("total_length",))
def group_query_attention(query, key, value, past_key, past_value, seqlens_k, total_length=None,
                          cos_cache=None, sin_cache=None, position_ids=None, attention_bias=None,
                          head_sink=None, k_scale=None, v_scale=None, q_norm_weight=None, k_norm_weight=None,
                          query_seqlens=None, causal: int = 1, do_rotary: int = 0, kv_num_heads: int = 1,
                          local_window_size: int = -1, num_heads: int = 1, rotary_interleaved: int = 0,
                          scale: float = 0.0, smooth_softmax: int = 0, softcap: float = 0.0,
                          qk_norm_epsilon: float = 1e-6, q_norm_epsilon=None, k_norm_epsilon=None,
                          qk_output: int = 0, kv_cache_bit_width: int = 0, k_quant_type: str = "NONE",
                          v_quant_type: str = "NONE", sliding_window_cache: int = 0):  # fmt: skip
    """Causal attention of few heads of keys with a cache, as large language models use it.

    `seqlens_k` + 1 is how many tokens each line has with the new ones; what a cache holds behind them is not looked at.
    """
    _refuse("GroupQueryAttention", k_scale=k_scale, v_scale=v_scale, query_seqlens=query_seqlens,
            kv_cache_bit_width=kv_cache_bit_width, sliding_window_cache=sliding_window_cache)  # fmt: skip
    q, k, v = _split_heads(query, key, value, num_heads, kv_num_heads)
    q = _normed(q, q_norm_weight, q_norm_epsilon or qk_norm_epsilon)
    k = _normed(k, k_norm_weight, k_norm_epsilon or qk_norm_epsilon)
    batch, queries = q.shape[0], q.shape[2]
    past = None if past_key is None or past_key.shape[2] == 0 else past_key
    totals = seqlens_k.reshape(-1).cast("int32") + 1
    before = (totals - queries).maximum(0) if past is not None else (totals * 0)
    places = before.reshape(-1, 1) + Tensor.arange(queries).reshape(1, -1)
    places = places.expand(batch, queries)
    if do_rotary:
        turn = places if position_ids is None else position_ids
        # what is padding may lie behind the end of the table
        turn = turn.minimum(cos_cache.shape[0] - 1)
        q = rotary_embedding(q, cos_cache, sin_cache, turn, rotary_interleaved)
        k = rotary_embedding(k, cos_cache, sin_cache, turn, rotary_interleaved)
    length = _cache_length(past, queries, total_length)
    k = _appended(past, k, before, length)
    v = _appended(None if past is None else past_value, v, before, length)
    keys = Tensor.arange(length).reshape(1, 1, -1)
    seen = keys < totals.reshape(-1, 1, 1)
    if causal:
        seen = seen & (keys <= places.unsqueeze(-1))
        if local_window_size > 0:
            seen = seen & (keys > places.unsqueeze(-1) - local_window_size)
    scores = _scores(q, shared(k, num_heads), scale, softcap)
    if attention_bias is not None:
        scores = scores + attention_bias[..., :length]
    scores = seen.unsqueeze(1).where(scores, -math.inf)
    sink = None if head_sink is None else head_sink.reshape(1, -1, 1, 1)
    sink = 0.0 if sink is None and smooth_softmax > 0 else sink
    y = _shares(scores, sink).matmul(shared(v, num_heads))
    return joined(y.cast(q.dtype)), k, v

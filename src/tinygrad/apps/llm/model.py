"""A decoder of the Llama and Qwen families (grouped attention, rotary positions, gated or routed feed-forward).

In: token numbers (B, T) and the position of the first, a number or a bound symbolic variable. Out: the likeliest next token.
Keys and values of earlier positions stay in a cache per block, so a call needs only the tokens after `start_pos`.
Attribute names are the tensor names of GGUF files. Called by the chat program and the server.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from tinygrad import Tensor, TinyJit, UOp, dtypes, nn
from tinygrad.nn.state import gguf_load, load_state_dict
from tinygrad.uop.ops import sint

# tokens of a prompt that one call reads; a remainder is read one by one, so only two shapes are compiled
PROMPT_STEP = 32


@functools.cache
def precompute_freqs_cis(dim: int, end: sint, theta: float = 10000.0) -> Tensor:
    """Cosines, then sines, of the rotary angles of positions 0..end-1: (end, dim) float32 (Su et al., arXiv:2104.09864).

    For an `end` with a variable the table is as long as it can get, so that it is the same in every call of a capture.
    """
    longest = end if isinstance(end, int) else int(end.vmax)
    speed = theta ** (Tensor.arange(0, dim, 2).float() * (-1 / dim))
    angle = Tensor.arange(longest).float().unsqueeze(1) * speed
    table = angle.cos().cat(angle.sin(), dim=-1).contiguous()
    return table if isinstance(end, int) else table[:end]


def apply_rope(x: Tensor, freqs_cis: Tensor) -> Tensor:
    """Turns the pairs (i, i + d/2) of `x` (B, H, T, d) by the angles of its positions, `freqs_cis` (T, d).

    Raises AssertionError for an odd d.
    """
    if x.shape[-1] % 2:
        raise AssertionError(f"rotary positions turn pairs, but the last axis has {x.shape[-1]}")
    cos, sin = (part.cast(x.dtype) for part in freqs_cis.chunk(2, dim=-1))
    first, second = x.chunk(2, dim=-1)
    return (first * cos - second * sin).cat(second * cos + first * sin, dim=-1)


def _matrix(in_features: int, out_features: int) -> nn.Linear:
    return nn.Linear(in_features, out_features, bias=False)


def _hidden_sizes(dim: int, hidden_dim: int) -> tuple[tuple[int, int], ...]:
    """Inputs and outputs of a gated feed-forward: the gate, what it gates, and the way back."""
    return (dim, hidden_dim), (dim, hidden_dim), (hidden_dim, dim)


class ExpertWeights:
    """One matrix per expert: (experts, outputs, inputs)."""

    def __init__(self, num_experts: int, in_features: int, out_features: int):
        self.weight = Tensor.zeros(num_experts, out_features, in_features)

    def __call__(self, chosen: Tensor, x: Tensor) -> Tensor:
        """(B, T, k) numbers of experts and (B, T, k or 1, inputs): (B, T, k, outputs)."""
        return (self.weight[chosen] @ x.unsqueeze(-1)).squeeze(-1)


class TransformerBlock:
    """Attention, then feed-forward, each added to what comes in.

    `qk_norm` is the length over which queries and keys are normalised (0: they are not). With `num_experts` each token is
    fed through the `num_experts_per_tok` experts that its router likes best (Shazeer et al., arXiv:1701.06538).
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        n_heads: int,
        n_kv_heads: int,
        norm_eps: float,
        head_dim: int,
        rope_theta: float,
        max_context: int = 0,
        qk_norm: int = 0,
        num_experts: int = 0,
        num_experts_per_tok: int = 0,
    ):
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.rope_theta, self.max_context = rope_theta, max_context
        self.qk_norm, self.num_experts_per_tok = qk_norm, num_experts_per_tok

        every, shared = n_heads * head_dim, n_kv_heads * head_dim
        self.attn_norm, self.ffn_norm = (nn.RMSNorm(dim, norm_eps) for _ in range(2))
        self.attn_q, self.attn_k, self.attn_v = (_matrix(dim, n) for n in (every, shared, shared))
        self.attn_output = _matrix(every, dim)
        if qk_norm:
            self.attn_q_norm, self.attn_k_norm = (nn.RMSNorm(qk_norm, norm_eps) for _ in range(2))
        if num_experts:
            self.ffn_gate_inp = _matrix(dim, num_experts)
            self.ffn_gate_exps, self.ffn_up_exps, self.ffn_down_exps = (
                ExpertWeights(num_experts, *sizes) for sizes in _hidden_sizes(dim, hidden_dim)
            )
        else:
            self.ffn_gate, self.ffn_up, self.ffn_down = (
                _matrix(*sizes) for sizes in _hidden_sizes(dim, hidden_dim)
            )

    def __call__(self, x: Tensor, start_pos: int | UOp) -> Tensor:
        x = x + self._attend(self.attn_norm(x), start_pos)
        return (x + self._feed_forward(self.ffn_norm(x))).contiguous()

    def _heads(self, x: Tensor, count: int, norm: nn.RMSNorm | None) -> Tensor:
        """(B, T, count * d) to (B, count, T, d), normalised over a head or over all of them."""
        whole = self.qk_norm != self.head_dim
        if norm is not None and whole:
            x = norm(x)
        x = x.reshape(*x.shape[:2], count, self.head_dim)
        if norm is not None and not whole:
            x = norm(x)
        return x.transpose(1, 2)

    def _remember(self, keys: Tensor, values: Tensor, start_pos: int | UOp) -> Tensor:
        """Writes to the cache and gives it back: (2, B, heads, max_context, d)."""
        if not hasattr(self, "cache_kv"):
            batch, heads, _, width = keys.shape
            shape = (2, batch, heads, self.max_context, width)
            self.cache_kv = Tensor.zeros(*shape, dtype=keys.dtype, device=keys.device)
            self.cache_kv = self.cache_kv.contiguous().realize()
        end = start_pos + keys.shape[2]
        self.cache_kv[:, :, :, start_pos:end, :].assign(Tensor.stack(keys, values)).realize()
        return self.cache_kv[:, :, :, 0:end, :]

    def _attend(self, x: Tensor, start_pos: int | UOp) -> Tensor:
        steps = x.shape[1]
        norms = (self.attn_q_norm, self.attn_k_norm) if self.qk_norm else (None, None)
        query = self._heads(self.attn_q(x), self.n_heads, norms[0])
        key = self._heads(self.attn_k(x), self.n_kv_heads, norms[1])
        value = self._heads(self.attn_v(x), self.n_kv_heads, None)

        angles = precompute_freqs_cis(self.head_dim, self.max_context, self.rope_theta)
        angles = angles[start_pos : start_pos + steps]
        seen = self._remember(apply_rope(key, angles), value, start_pos)
        mask = None
        if steps > 1:
            # query i stands at start_pos + i and sees what is not later
            own = Tensor.arange(steps).reshape(steps, 1) + start_pos
            mask = Tensor.arange(self.max_context)[: start_pos + steps].unsqueeze(0) <= own
        out = apply_rope(query, angles).scaled_dot_product_attention(
            seen[0], seen[1], attn_mask=mask, enable_gqa=True
        )
        out = out.transpose(1, 2).reshape(*x.shape[:2], self.n_heads * self.head_dim)
        return self.attn_output(out)

    def _feed_forward(self, x: Tensor) -> Tensor:
        if not self.num_experts_per_tok:
            return self.ffn_down(self.ffn_gate(x).silu() * self.ffn_up(x))
        share, chosen = self.ffn_gate_inp(x).softmax(-1).topk(self.num_experts_per_tok)
        share = share / share.sum(-1, keepdim=True)
        x = x.unsqueeze(2)
        hidden = self.ffn_gate_exps(chosen, x).silu() * self.ffn_up_exps(chosen, x)
        return (self.ffn_down_exps(chosen, hidden) * share.unsqueeze(-1)).sum(2)


class Transformer:
    """Embedding, blocks, and a last layer over the vocabulary."""

    def __init__(
        self,
        *,
        num_blocks,
        dim,
        hidden_dim,
        n_heads,
        n_kv_heads,
        norm_eps,
        vocab_size,
        head_dim: int,
        rope_theta: float,
        max_context: int = 0,
        qk_norm: int = 0,
        num_experts: int = 0,
        num_experts_per_tok: int = 0,
    ):
        self.blk = [
            TransformerBlock(
                dim,
                hidden_dim,
                n_heads,
                n_kv_heads,
                norm_eps,
                head_dim,
                rope_theta,
                max_context,
                qk_norm,
                num_experts,
                num_experts_per_tok,
            )
            for _ in range(num_blocks)
        ]
        self.max_context = max_context
        self.output, self.output_norm = _matrix(dim, vocab_size), nn.RMSNorm(dim, norm_eps)
        self.token_embd = nn.Embedding(vocab_size, dim)
        self.forward_jit = TinyJit(self.forward)
        self.prompt_jit = TinyJit(self.forward)

    def forward(self, tokens: Tensor, start_pos: int | UOp) -> Tensor:
        """The likeliest token after each row of `tokens` (B, T), whose first stands at `start_pos`: (B, 1) int32."""
        x = self.token_embd(tokens).float()
        for block in self.blk:
            x = block(x, start_pos)
        return self.output(self.output_norm(x))[:, -1:, :].argmax(-1).cast(dtypes.int32)

    def __call__(self, tokens: Tensor, start_pos: int | UOp = 0) -> Tensor:
        """`forward`, replayed where the position is symbolic."""
        if not isinstance(start_pos, UOp):
            return self.forward(tokens, start_pos)
        return (self.forward_jit if tokens.shape[1] == 1 else self.prompt_jit)(tokens, start_pos)

    def generate(self, tokens: list[int], start_pos=0) -> Iterator[int]:
        """Continues `tokens` until the context is full. The cache must hold those before `start_pos`.

        Raises ValueError where there is nothing to read or the prompt leaves no room.
        """
        count = len(tokens)
        if not 0 <= start_pos < count or count > self.max_context:
            raise ValueError(
                f"{count} tokens from position {start_pos} in a context of {self.max_context}: "
                "at least one must be new and all must fit"
            )
        position = UOp.variable("start_pos", 0, self.max_context - 1)
        answer: Any = None
        while start_pos < count:
            step = PROMPT_STEP if count - start_pos >= PROMPT_STEP else 1
            part = Tensor([tokens[start_pos : start_pos + step]], dtype=dtypes.int32).realize()
            answer = self(part, position.bind(start_pos))
            start_pos += step
        while True:
            token = int(answer.item())
            yield token
            if start_pos >= self.max_context:
                return
            part = Tensor([[token]], dtype=dtypes.int32).realize()
            answer = self(part, position.bind(start_pos))
            start_pos += 1

    @staticmethod
    def from_gguf(
        gguf: Tensor, max_context: int | None = None, realize=True
    ) -> tuple[Transformer, dict]:
        """The model in a GGUF file (its bytes) and the file's metadata.

        `max_context` lowers the context length the file states; `realize` reads the weights at once.
        Raises ValueError for tensors that the architecture needs and the file lacks, or the other way round.
        """
        kv, weights = gguf_load(gguf)
        arch = kv["general.architecture"]
        heads, dim = kv[f"{arch}.attention.head_count"], kv[f"{arch}.embedding_length"]
        kv_heads = kv.get(f"{arch}.attention.head_count_kv", heads)
        head_dim = kv.get(f"{arch}.attention.key_length", dim // heads)
        if "output.weight" not in weights:
            weights["output.weight"] = weights["token_embd.weight"]
        weights.pop("rope_freqs.weight", None)
        if arch == "llama":
            _unpair_rotary(weights, head_dim)
        context = kv[f"{arch}.context_length"]
        experts = kv.get(f"{arch}.expert_count", 0)
        norm_weight = weights.get("blk.0.attn_q_norm.weight")
        model = Transformer(
            num_blocks=kv[f"{arch}.block_count"],
            dim=dim,
            hidden_dim=kv[
                f"{arch}.expert_feed_forward_length" if experts else f"{arch}.feed_forward_length"
            ],
            n_heads=heads,
            n_kv_heads=kv_heads,
            norm_eps=kv[f"{arch}.attention.layer_norm_rms_epsilon"],
            vocab_size=weights["token_embd.weight"].shape[0],
            head_dim=head_dim,
            rope_theta=kv.get(f"{arch}.rope.freq_base", 10000.0),
            max_context=context if max_context is None else min(max_context, context),
            qk_norm=0 if norm_weight is None else int(norm_weight.shape[0]),
            num_experts=experts,
            num_experts_per_tok=kv.get(f"{arch}.expert_used_count", 0),
        )
        load_state_dict(model, weights, verbose=False, consume=True, realize=False)
        if realize:
            params = nn.state.get_parameters(model)
            for param in params:
                param.replace(param.contiguous())
            Tensor.realize(*params)
        return model, kv


def _unpair_rotary(weights: dict[str, Tensor], head_dim: int) -> None:
    """Files of the Llama architecture keep rotary pairs side by side; puts them half a head apart as `apply_rope` has them."""
    for name, weight in weights.items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            pairs = weight.reshape(-1, head_dim // 2, 2, weight.shape[-1])
            weights[name] = pairs.transpose(1, 2).reshape(weight.shape)

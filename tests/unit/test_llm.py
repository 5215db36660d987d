"""The language model program: byte pairs, the model against a plain computation, files, the server on the wire."""

import http.client
import json
import struct
import threading

import numpy as np
import pytest

from tinygrad import Tensor, UOp, nn
from tinygrad.apps import llm
from tinygrad.apps.llm.model import PROMPT_STEP, apply_rope, precompute_freqs_cis
from tinygrad.helpers import TCPServerWithReuse

# ---- tokenizer


def spelled(text: bytes) -> str:
    """Bytes in the alphabet of GPT-2, written down from its definition."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [b for b in range(256) if b not in own]
    return "".join(chr(b) if b in own else chr(256 + moved.index(b)) for b in text)


def vocabulary(*longer: bytes) -> dict[str, int]:
    tokens = [bytes([b]) for b in range(256)] + list(longer)
    return {spelled(t): i for i, t in enumerate(tokens)}


LONGER = (b"he", b"ll", b"hell", b"hello", b" w", b"or", b" wor", b"ld", b" world", b"00", b"000")


def test_merges_by_rank():
    tok = llm.SimpleTokenizer(vocabulary(*LONGER), {"<|end|>": 400})
    assert tok.encode("hello world") == [259, 264]
    assert tok.encode("hellhe") == [258, 256]
    assert tok.encode("00000") == [266, 265]  # numbers are cut after three digits
    assert tok.encode("hello<|end|>he") == [259, 400, 256]
    assert tok.decode([259, 400, 264]) == "hello<|end|> world"


def test_listed_merges_win():
    tokens = vocabulary(b"ab", b"bc", b"abc")
    by_number = llm.SimpleTokenizer(tokens, {}, "gpt-2")
    listed = llm.SimpleTokenizer(tokens, {}, "gpt-2", merges=["b c", "a b"])
    assert (
        by_number.encode("abcd") == [256, ord("c"), ord("d")] or by_number.encode("abcd")[0] == 258
    )
    assert listed.encode("abcd") == [ord("a"), 257, ord("d")]


@pytest.mark.parametrize("preset", ["llama3", "qwen2", "gpt-2"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello, world!\n\n  you've  12345 \x85x",
        "naïve Straße 東京 \U0001f600\t\r\n",
        "a²³ ½ Ⅷ 'LL",
    ],
)
def test_text_comes_back(preset, text):
    tok = llm.SimpleTokenizer(vocabulary(*LONGER), {}, preset)
    assert tok.decode(tok.encode(text)) == text


@pytest.mark.parametrize(
    "preset, text, words",
    [
        ("llama3", "today\n  \n", ["today", "\n  \n"]),
        ("llama3", "1234 it's", ["123", "4", " it", "'s"]),
        ("llama3", "a  b", ["a", " ", " b"]),
        ("llama3", "(x) \x85y", ["(x", ")", " ", "\x85y"]),
        ("qwen2", "12 IT'S", ["1", "2", " IT", "'S"]),
        ("gpt-2", "12345 IT'S", ["12345", " IT", "'", "S"]),
    ],
)
def test_words(preset, text, words):
    assert llm.SimpleTokenizer(vocabulary(), {}, preset)._words.findall(text) == words


def test_turns():
    special = {"<|im_start|>": 300, "<|im_end|>": 301}
    tok = llm.SimpleTokenizer(vocabulary(), special, "qwen2")
    assert tok.decode(tok.role("user")) == "<|im_start|>user\n"
    assert tok.decode(tok.end_turn(301)) == "<|im_end|>\n"
    with pytest.raises(ValueError, match="unknown tokenizer preset"):
        llm.SimpleTokenizer({}, {}, "nothing")


# ---- model

SIZES = {
    "num_blocks": 2,
    "dim": 16,
    "hidden_dim": 24,
    "n_heads": 4,
    "n_kv_heads": 2,
    "norm_eps": 1e-5,
    "vocab_size": 40,
    "head_dim": 4,
    "rope_theta": 100.0,
    "max_context": 80,
}


def small_model(**more) -> llm.Transformer:
    Tensor.manual_seed(7)
    model = llm.Transformer(**{**SIZES, **more})
    for param in nn.state.get_parameters(model):
        param.assign(Tensor.randn(*param.shape) * 0.4 + (1.0 if param.ndim == 1 else 0.0)).realize()
    return model


def plain_logits(model: llm.Transformer, ids: list[int]) -> np.ndarray:
    """Scores after every position, all at once in float64, without a cache."""
    get = {k: v.numpy().astype(np.float64) for k, v in nn.state.get_state_dict(model).items()}

    def norm(x, weight):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight

    def rope(x):
        half = x.shape[-1] // 2
        angle = np.arange(len(ids))[:, None] * 100.0 ** (-np.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        sin, cos = np.sin(angle), np.cos(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def silu(x):
        return x / (1 + np.exp(-x))

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    x = get["token_embd.weight"][ids]
    for i in range(len(model.blk)):
        w = {
            k[len(f"blk.{i}.") : -len(".weight")]: v
            for k, v in get.items()
            if k.startswith(f"blk.{i}.")
        }
        h = norm(x, w["attn_norm"])
        q, k, v = (
            (h @ w[f"attn_{c}"].T).reshape(len(ids), -1, 4).transpose(1, 0, 2) for c in "qkv"
        )
        if "attn_q_norm" in w:
            q, k = norm(q, w["attn_q_norm"]), norm(k, w["attn_k_norm"])
        k, v = np.repeat(rope(k), 2, 0), np.repeat(v, 2, 0)
        score = rope(q) @ k.transpose(0, 2, 1) / 2
        score = np.where(np.tril(np.ones((len(ids), len(ids)))), score, -np.inf)
        x = x + (softmax(score) @ v).transpose(1, 0, 2).reshape(len(ids), -1) @ w["attn_output"].T
        h = norm(x, w["ffn_norm"])
        if "ffn_gate_inp" not in w:
            x = x + (silu(h @ w["ffn_gate"].T) * (h @ w["ffn_up"].T)) @ w["ffn_down"].T
            continue
        share = softmax(h @ w["ffn_gate_inp"].T)
        for t in range(len(ids)):
            best = np.argsort(-share[t])[:2]
            for e in best:
                out = silu(w["ffn_gate_exps"][e] @ h[t]) * (w["ffn_up_exps"][e] @ h[t])
                x[t] += share[t, e] / share[t, best].sum() * (w["ffn_down_exps"][e] @ out)
    return norm(x, get["output_norm.weight"]) @ get["output.weight"].T


@pytest.mark.parametrize("more", [{}, {"qk_norm": 4}, {"num_experts": 4, "num_experts_per_tok": 2}])
def test_generate_matches_plain_computation(more):
    model = small_model(**more)
    prompt = [(7 * i + 3) % 40 for i in range(PROMPT_STEP + 3)]
    ids = list(prompt)
    for token, _ in zip(model.generate(prompt), range(12)):
        assert token == plain_logits(model, ids)[-1].argmax()
        ids.append(token)
    # another question to the same cache, from where both agree
    other = prompt[:20] + [1, 2, 3]
    assert next(model.generate(other, start_pos=20)) == plain_logits(model, other)[-1].argmax()


def test_captures_are_no_state():
    model = small_model(num_blocks=1)
    names = set(nn.state.get_state_dict(model))
    for _ in zip(model.generate([1, 2, 3]), range(3)):
        pass
    assert set(nn.state.get_state_dict(model)) == names | {"blk.0.cache_kv"}


def test_forward_reads_a_prompt_at_once():
    model = small_model()
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    assert model(Tensor([ids])).item() == plain_logits(model, ids)[-1].argmax()


def test_context_limits():
    model = small_model(max_context=8, num_blocks=1)
    assert len(list(model.generate([1, 2, 3]))) == 6
    for prompt, start in (([], 0), ([1], 1), ([1] * 9, 0)):
        with pytest.raises(ValueError, match="context of 8"):
            next(model.generate(prompt, start))


def test_rope_wants_pairs():
    with pytest.raises(AssertionError, match="has 7"):
        apply_rope(Tensor.ones(1, 1, 4, 7), precompute_freqs_cis(8, 4))


# ---- files


def gguf_bytes(kv: dict, tensors: dict[str, np.ndarray]) -> bytes:
    """A GGUF file of version 3 with float32 tensors."""

    def text(s: str) -> bytes:
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def value(v) -> bytes:
        if isinstance(v, str):
            return struct.pack("<i", 8) + text(v)
        if isinstance(v, list):
            inner = b"".join(value(x)[4:] for x in v)
            return struct.pack("<iiQ", 9, 8 if isinstance(v[0], str) else 5, len(v)) + inner
        if isinstance(v, float):
            return struct.pack("<if", 6, v)
        return struct.pack("<ii", 5, v)

    head = b"GGUF" + struct.pack("<iqq", 3, len(tensors), len(kv))
    head += b"".join(text(k) + value(v) for k, v in kv.items())
    data = b""
    for name, array in tensors.items():
        head += text(name) + struct.pack("<I", array.ndim)
        head += struct.pack(f"<{array.ndim}Q", *reversed(array.shape)) + struct.pack(
            "<iQ", 0, len(data)
        )
        data += array.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


@pytest.mark.parametrize("arch", ["llama", "qwen3"])
def test_from_gguf(arch, tmp_path):
    model = small_model(**({"qk_norm": 4} if arch == "qwen3" else {}))
    weights = {k: v.numpy() for k, v in nn.state.get_state_dict(model).items()}
    if arch == "llama":  # files of this architecture keep rotary pairs side by side
        for name in weights:
            if "attn_q." in name or "attn_k." in name:
                w = weights[name]
                weights[name] = w.reshape(-1, 2, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)
    kv = {
        "general.architecture": arch,
        f"{arch}.block_count": 2,
        f"{arch}.embedding_length": 16,
        f"{arch}.feed_forward_length": 24,
        f"{arch}.attention.head_count": 4,
        f"{arch}.attention.head_count_kv": 2,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 100.0,
        f"{arch}.context_length": 80,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": ["a", "b", "ab", "<|end|>"],
        "tokenizer.ggml.token_type": [1, 1, 1, 3],
        "tokenizer.ggml.merges": ["a b"],
    }
    (tmp_path / "model.gguf").write_bytes(gguf_bytes(kv, weights))
    for source in (Tensor(gguf_bytes(kv, weights)), Tensor(tmp_path / "model.gguf")):
        read, metadata = llm.Transformer.from_gguf(source, max_context=40)
        check_read(model, read, metadata)


def check_read(model: llm.Transformer, read: llm.Transformer, metadata: dict) -> None:
    assert read.max_context == 40
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    assert next(read.generate(ids)) == plain_logits(model, ids)[-1].argmax()
    tok = llm.SimpleTokenizer.from_gguf_kv(metadata)
    assert tok.encode("abab<|end|>b") == [2, 2, 3, 1]


# ---- server


class Parrot:
    """A model that says the bytes of a text, and remembers from where it was asked to read."""

    def __init__(self, text: str):
        self.text, self.starts = text, []

    def generate(self, ids, start_pos=0):
        self.starts.append(start_pos)
        yield from self.text.encode()
        yield 301


@pytest.fixture
def served(monkeypatch):
    tok = llm.SimpleTokenizer(vocabulary(), {"<|im_start|>": 300, "<|im_end|>": 301}, "qwen2")
    model = Parrot("grüße")
    for name, value in (("model", model), ("tok", tok), ("bos_id", None), ("eos_id", 301)):
        monkeypatch.setattr(llm, name, value)
    with TCPServerWithReuse(("127.0.0.1", 0), llm.Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], model
        server.shutdown()


def ask(port: int, body, path="/v1/chat/completions") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
    answer = connection.getresponse()
    out = answer.status, answer.read()
    connection.close()
    return out


QUESTION = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_whole_answer(served):
    port, model = served
    status, raw = ask(port, QUESTION)
    answer = json.loads(raw)
    assert status == 200
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "grüße"}
    assert answer["usage"]["completion_tokens"] == len("grüße".encode())
    # the same conversation again is only read from its last token on
    ask(port, QUESTION)
    assert model.starts == [0, answer["usage"]["prompt_tokens"] - 1]


def test_streamed_answer_keeps_characters_whole(served):
    port, _ = served
    status, raw = ask(port, {**QUESTION, "stream": True, "stream_options": {"include_usage": True}})
    *events, done = [e[len("data: ") :] for e in raw.decode().split("\n\n") if e]
    chunks = [json.loads(e) for e in events]
    assert status == 200 and done == "[DONE]"
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1]) == "grüße"
    assert not any("\ufffd" in e for e in events)
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    "body",
    [b"no json", b"[]", b"{}", {"messages": [{"role": "user", "content": [{"type": "image"}]}]}],
)
def test_unreadable_requests(served, body):
    status, raw = ask(served[0], body)
    assert status == 400 and "unreadable" in json.loads(raw)["error"]["message"]


def test_other_paths(served):
    assert ask(served[0], QUESTION, "/v1/other")[0] == 404


def test_rotary_table_of_a_bound_length_is_whole():
    n = UOp.variable("n", 1, 9)
    part = precompute_freqs_cis(8, n.bind(4))
    whole = precompute_freqs_cis(8, 9)
    assert part.shape[0].vmax == 9
    np.testing.assert_array_equal(part[:4].numpy(), whole.numpy()[:4])

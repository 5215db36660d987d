"""Language models from GGUF files: a tokenizer, a transformer with a key-value cache and a chat server.

`python -m tinygrad.apps.llm --help` talks to a model on the terminal or serves it at 127.0.0.1 with the
interface of OpenAI's chat completions.

`model`, `tok`, `bos_id` and `eos_id` are what `Handler` serves; whoever starts a server sets them first.
"""

from __future__ import annotations

from typing import Any

from tinygrad.apps.llm.model import (
    Transformer,
    TransformerBlock,
    apply_rope,
    precompute_freqs_cis,
)
from tinygrad.apps.llm.server import Handler
from tinygrad.apps.llm.tokenizer import SimpleTokenizer

__all__ = [
    "Handler",
    "SimpleTokenizer",
    "Transformer",
    "TransformerBlock",
    "apply_rope",
    "models",
    "precompute_freqs_cis",
]

_HUB = "https://huggingface.co"

# short name -> (repository, file) of instruction-tuned models
_FILES = {
    "llama3.2:1b": ("bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q6_K.gguf"),
    "llama3.2:3b": ("bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q6_K.gguf"),
    "qwen3:0.6b": ("Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf"),
    "qwen3:1.7b": ("Qwen/Qwen3-1.7B-GGUF", "Qwen3-1.7B-Q8_0.gguf"),
    "qwen3:8b": ("Qwen/Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf"),
    "qwen3:30b-a3b": ("Qwen/Qwen3-30B-A3B-GGUF", "Qwen3-30B-A3B-Q4_K_M.gguf"),
}

models = {short: f"{_HUB}/{repo}/resolve/main/{file}" for short, (repo, file) in _FILES.items()}

# a Transformer and a SimpleTokenizer; who serves them has set them, so that nobody asks for None
model: Any = None
tok: Any = None
bos_id: int | None = None
eos_id: int = -1

"""Talk to a language model on the terminal, or serve it: `python -m tinygrad.apps.llm [MODEL or FILE] [--serve [PORT]]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tinygrad import Tensor
from tinygrad.apps import llm
from tinygrad.common.server import TCPServerWithReuse
from tinygrad.helpers import fetch


def load(name: str, max_context: int) -> None:
    """Sets what `tinygrad.apps.llm` serves. `name` is a known model or the path of a GGUF file."""
    path = Path(name) if name not in llm.models else fetch(llm.models[name])
    llm.model, kv = llm.Transformer.from_gguf(Tensor(path), max_context)
    llm.tok = llm.SimpleTokenizer.from_gguf_kv(kv)
    wants_bos = kv.get("tokenizer.ggml.add_bos_token", True)
    llm.bos_id = kv.get("tokenizer.ggml.bos_token_id") if wants_bos else None
    llm.eos_id = kv["tokenizer.ggml.eos_token_id"]


def answer(ids: list[int], start_pos: int) -> list[int]:
    """Prints the model's turn as it comes; returns its tokens without the end."""
    reader, made = llm.server.PieceReader(llm.tok), []
    for token in llm.model.generate(ids, start_pos):
        if token == llm.eos_id:
            break
        made.append(token)
        print(reader.push(token), end="", flush=True)
    print(reader.rest())
    return made


def chat() -> None:
    """Reads lines from the terminal until it ends."""
    tok = llm.tok
    ids, read = [] if llm.bos_id is None else [llm.bos_id], 0
    while True:
        try:
            line = input(">>> ")
        except EOFError:
            return
        ids += tok.role("user") + tok.encode(line) + tok.end_turn(llm.eos_id)
        ids += tok.role("assistant")
        made = answer(ids, read)
        # the last token of an answer may not have been read back yet
        read = len(ids) + max(len(made) - 1, 0)
        ids += made + tok.end_turn(llm.eos_id)


def measure(count: int) -> None:
    """Prints the time of each of `count` tokens."""
    tokens = llm.model.generate([0])
    for _ in range(count):
        start = time.perf_counter()
        token = next(tokens)
        spent = time.perf_counter() - start
        print(f"{spent * 1e3:8.2f} ms, {1 / spent:6.2f} tokens/s: {llm.tok.decode([token])!r}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tinygrad.apps.llm", description=__doc__)
    parser.add_argument(
        "model",
        nargs="?",
        default="llama3.2:1b",
        help=f"the path of a GGUF file or one of {', '.join(llm.models)} (fetched once)",
    )
    parser.add_argument("--max_context", type=int, default=4096, help="tokens kept at most")
    parser.add_argument(
        "--serve", nargs="?", type=int, const=11434, metavar="PORT", help="answer at 127.0.0.1"
    )
    parser.add_argument(
        "--benchmark", nargs="?", type=int, const=20, metavar="COUNT", help="time some tokens"
    )
    args = parser.parse_args(argv)
    load(args.model, args.max_context)
    if args.benchmark:
        measure(args.benchmark)
    elif args.serve:
        with TCPServerWithReuse(("127.0.0.1", args.serve), llm.Handler) as server:
            server.serve_forever()
    else:
        chat()
    return 0


if __name__ == "__main__":
    sys.exit(main())

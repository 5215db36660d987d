"""Answers chat completions in the form of OpenAI's interface, as one piece or as server-sent events.

The served model, tokenizer and end token are read from `tinygrad.apps.llm` at each request. One conversation's keys and
values are kept: a request that continues what was read last only reads the rest.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import uuid
from collections.abc import Generator, Iterator
from http.server import BaseHTTPRequestHandler

# a larger request body is refused
MAX_BODY = 16 << 20

_served = sys.modules["tinygrad.apps.llm"]


def shared_prefix(a: list[int], b: list[int]) -> int:
    """How many numbers two lists have in common from the start."""
    return sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    )


class PieceReader:
    """Turns tokens into text as they come; the bytes of an unfinished character wait for the rest."""

    def __init__(self, tok):
        self.tok, self.waiting = tok, []

    def push(self, token: int) -> str:
        self.waiting.append(token)
        text = self.tok.decode(self.waiting)
        # a character has at most four bytes: what is still broken after four tokens will not mend
        if text.endswith("\ufffd") and len(self.waiting) < 4:
            return ""
        self.waiting = []
        return text

    def rest(self) -> str:
        waiting, self.waiting = self.waiting, []
        return self.tok.decode(waiting) if waiting else ""


def chat_tokens(messages: list[dict]) -> list[int]:
    """The prompt of a conversation, up to where the assistant's next turn begins. Raises ValueError for other content than text."""
    tok = _served.tok
    ids = [] if _served.bos_id is None else [_served.bos_id]
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            if any(part.get("type") != "text" for part in content):
                raise ValueError("only text parts are understood")
            content = "".join(part["text"] for part in content)
        ids += tok.role(message["role"]) + tok.encode(content) + tok.end_turn(_served.eos_id)
    return ids + tok.role("assistant")


class Handler(BaseHTTPRequestHandler):
    """`POST /v1/chat/completions` (streamed or not), `GET /v1/models`."""

    protocol_version = "HTTP/1.1"
    # the tokens whose keys and values the served model holds
    cached: list[int] = []
    cached_model: object = None

    def log_request(self, code="-", size="-"):
        """Requests are not logged."""

    def do_GET(self):  # noqa: N802
        """The list of models."""
        if self.path.rstrip("/") != "/v1/models":
            self._send_json(404, {"error": {"message": f"there is nothing at {self.path}"}})
            return
        entry = {"id": "tinygrad", "object": "model", "owned_by": "local"}
        self._send_json(200, {"object": "list", "data": [entry]})

    def do_POST(self):  # noqa: N802
        """A chat completion; 400 with a message for a request that cannot be read."""
        if self.path.rstrip("/") != "/v1/chat/completions":
            self.close_connection = True
            self._send_json(404, {"error": {"message": f"there is nothing at {self.path}"}})
            return
        try:
            request = self._read_json()
            ids = chat_tokens(request["messages"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.close_connection = True
            self._send_json(400, {"error": {"message": f"unreadable request: {error!r}"}})
            return
        usage = bool((request.get("stream_options") or {}).get("include_usage"))
        stream = bool(request.get("stream"))
        chunks = self.run_model(
            ids, request.get("model", "tinygrad"), include_usage=usage or not stream
        )
        if stream:
            self._send_events(chunks)
        else:
            self._send_json(200, gather(list(chunks)))

    def run_model(
        self, ids: list[int], model_name: str, include_usage=False
    ) -> Generator[dict, None, None]:
        """The chunks of the answer to the prompt `ids`: the role, pieces of text, why it ended and, if wanted, counts."""
        common = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model_name,
        }

        def chunk(delta: dict, finish: str | None = None) -> dict:
            return {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": ""})
        reader, finish, made = PieceReader(_served.tok), "length", 0
        for token in self._tokens(ids):
            if token == _served.eos_id:
                finish = "stop"
                break
            made += 1
            if text := reader.push(token):
                yield chunk({"content": text})
        if text := reader.rest():
            yield chunk({"content": text})
        yield chunk({}, finish)
        if include_usage:
            counts = {
                "prompt_tokens": len(ids),
                "completion_tokens": made,
                "total_tokens": len(ids) + made,
            }
            yield {**common, "choices": [], "usage": counts}

    @staticmethod
    def _tokens(ids: list[int]) -> Iterator[int]:
        """What the model says after `ids`; remembers which positions its cache holds."""
        model = _served.model
        held = Handler.cached if Handler.cached_model is model else []
        # at least one token must be read for an answer
        start = min(shared_prefix(held, ids), len(ids) - 1)
        seen = Handler.cached = list(ids)
        Handler.cached_model = model
        for token in model.generate(ids, start_pos=start):
            yield token
            seen.append(token)

    # ---- the wire

    def _read_json(self) -> dict:
        size = int(self.headers.get("Content-Length", 0))
        if not 0 <= size <= MAX_BODY:
            raise ValueError(f"a body of {size} bytes, at most {MAX_BODY} are read")
        request = json.loads(self.rfile.read(size))
        if not isinstance(request, dict):
            raise ValueError(f"a JSON object is expected, got {type(request).__name__}")
        return request

    def _send_json(self, status: int, answer: dict) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_events(self, chunks: Generator[dict, None, None]) -> None:
        # the length is not known before: the end of the connection is the end of the answer
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for chunk in chunks:
                self.wfile.write(b"data: %s\n\n" % json.dumps(chunk).encode())
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            # the client has left: stop the model
            chunks.close()


def gather(chunks: list[dict]) -> dict:
    """One answer of the chunks of a stream that ends with counts."""
    *spoken, last = chunks
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in spoken)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": spoken[-1]["choices"][0]["finish_reason"],
    }
    return {**last, "object": "chat.completion", "choices": [choice]}

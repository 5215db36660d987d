"""The page's server, and the functions that turn recordings into what the page shows.

`python -m tinygrad.viz.serve [--kernels FILE] [--profile FILE] [--port N]` serves the last recording, or the files given. It
listens on the loopback address only and answers only requests that name that address, so no other page can read a recording.

`trace` is what the functions without a trace argument look into; the server fills it from a file, tests and notebooks may
put the recording of their own process there.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import socketserver
import sys
import webbrowser
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tinygrad.common.server import TCPServerWithReuse
from tinygrad.helpers import ProfileEvent, getenv
from tinygrad.uop.ops import RewriteTrace, UOp
from tinygrad.uop.tracing import TrackedGraphRewrite
from tinygrad.viz import rewrites, store, timeline
from tinygrad.viz.graphs import uop_to_json
from tinygrad.viz.hardware import llvm_disasm, unpack_pmc
from tinygrad.viz.rewrites import GraphRewriteDetails
from tinygrad.viz.timeline import device_sort_fn

__all__ = [
    "GraphRewriteDetails",
    "device_sort_fn",
    "get_full_rewrite",
    "get_profile",
    "get_rewrites",
    "llvm_disasm",
    "main",
    "trace",
    "unpack_pmc",
    "uop_to_json",
]

trace = RewriteTrace()


def get_rewrites(t: RewriteTrace) -> list[dict]:
    """The groups of a trace: `name` and `steps`, each with name, loc, match_count, code_line, depth and trace."""
    return rewrites.list_rewrites(t)


def get_full_rewrite(
    ctx: TrackedGraphRewrite,
) -> Generator[GraphRewriteDetails, None, None]:
    """The graphs of one step of `trace`: at the start, then after each change."""
    yield from rewrites.walk_rewrite(ctx, trace.uop_fields)


def get_profile(
    profile: list[ProfileEvent], sort_fn: Callable[[str], Any] = device_sort_fn
) -> bytes | None:
    """The events packed for the page (the layout stands in `tinygrad.viz.timeline`), None if there are none."""
    return timeline.pack_profile(profile, rewrites.groups_by_name(trace), sort_fn)


# ---- what the page asks for


class NotFound(Exception):
    """The recording has no such part."""


class Library:
    """A recording as the page reads it. Answers are plain data, or bytes."""

    def __init__(self, recording: store.Recording, profile: bytes | None):
        self.trace, self.kernels, self.profile = recording.trace, recording.kernels, profile
        self.listed = get_rewrites(self.trace)
        self.answers: dict[str, Callable[..., Any]] = {
            "/api/groups": self.groups,
            "/api/step": self.step,
            "/api/graph": self.graph,
            "/api/kernel": self.kernel,
            "/api/profile": self.timeline,
        }

    def _record(self, group: int, step: int) -> TrackedGraphRewrite:
        try:
            return self.trace.rewrites[group][step]
        except IndexError:
            raise NotFound(f"there is no step {step} of group {group}") from None

    @functools.lru_cache(maxsize=4)  # noqa: B019 - one library lives as long as the server
    def _nodes(self, group: int, step: int) -> rewrites.Nodes:
        """Kept per step, so that ids stay comparable while it is looked at."""
        return rewrites.Nodes(self.trace.uop_fields)

    def groups(self) -> list[dict]:
        """All groups; the places where steps were called from come with the step."""
        return [
            {
                "name": group["name"],
                "kernel": number in self.kernels,
                "steps": [{k: v for k, v in s.items() if k != "trace"} for s in group["steps"]],
            }
            for number, group in enumerate(self.listed)
        ]

    def step(self, group: int, step: int) -> dict:
        """The changes of a step, and where it was called."""
        record, nodes = self._record(group, step), self._nodes(group, step)
        changes = [
            {
                "from": nodes[before].op.name,
                "to": nodes[after].op.name,
                "rule": None
                if rule is None
                else {"file": rule[0], "line": rule[1], "name": rule[2]},
                "us": round(seconds * 1e6, 1),
            }
            for before, after, rule, seconds in record.matches
        ]
        return {"changes": changes, "trace": self.listed[group]["steps"][step]["trace"]}

    def graph(self, group: int, step: int, change: int) -> GraphRewriteDetails:
        """The graph of a step after `change` changes."""
        record, nodes = self._record(group, step), self._nodes(group, step)
        if not 0 <= change <= len(record.matches):
            raise NotFound(f"the step has {len(record.matches)} changes, got {change}")
        before: UOp | None = None
        if change > 0:
            before = rewrites.graph_after(record, nodes, change - 1)
        return rewrites.describe(record, nodes, change, before)[1]

    def kernel(self, group: int) -> dict:
        """Source and instructions of a group that is a kernel."""
        view = self.kernels.get(group)
        if view is None:
            raise NotFound(f"group {group} is no rendered kernel")
        return {"name": view.name, "source": view.source, "listing": view.listing}

    def timeline(self) -> bytes:
        if self.profile is None:
            raise NotFound("no profile was recorded: set PROFILE=1 or VIZ=1")
        return self.profile

    def answer(self, path: str, query: dict[str, int]) -> tuple[str, bytes]:
        """Type and content. Raises NotFound."""
        if path not in self.answers:
            raise NotFound(f"there is no {path}")
        try:
            found = self.answers[path](**query)
        except TypeError as error:
            raise NotFound(f"{path} can't be asked with {query}: {error}") from error
        if isinstance(found, bytes):
            return "application/octet-stream", found
        return "application/json", json.dumps(found).encode()


# ---- HTTP

_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    **{
        f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("main", "graph", "timeline", "text")
    },
}
_LOCAL_NAMES = {"127.0.0.1", "localhost"}


class Handler(BaseHTTPRequestHandler):
    """Answers the page's requests from the library of its server."""

    server: Server

    def do_GET(self) -> None:  # noqa: N802 - the name http.server looks for
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in _LOCAL_NAMES:
            # another name for this address is a page elsewhere that tries to read the recording
            self._send(403, "text/plain", b"this server answers requests to 127.0.0.1 only")
            return
        parts = urlsplit(self.path)
        try:
            query = {name: int(values[-1]) for name, values in parse_qs(parts.query).items()}
            if parts.path == "/favicon.ico":  # asked for by browsers; the page has none
                self._send(204, "image/x-icon", b"")
            elif parts.path in _FILES:
                name, kind = _FILES[parts.path]
                self._send(200, kind, (_PAGE / name).read_bytes())
            else:
                self._send(200, *self.server.library.answer(parts.path, query))
        except (NotFound, ValueError) as error:
            self._send(404, "text/plain; charset=utf-8", str(error).encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line each."""


class Server(socketserver.ThreadingMixIn, TCPServerWithReuse):
    """A server of one library."""

    daemon_threads = True

    def __init__(self, port: int, library: Library):
        self.library = library
        super().__init__(("127.0.0.1", port), Handler)


def load_library(kernels: str, profile: str) -> Library:
    """Reads both files; a missing one counts as empty. Fills `trace`."""
    recording = store.read(kernels) if os.path.exists(kernels) else store.Recording()
    trace.keys, trace.rewrites, trace.uop_fields = (
        recording.trace.keys,
        recording.trace.rewrites,
        recording.trace.uop_fields,
    )
    packed = get_profile(store.read(profile)) if os.path.exists(profile) else None
    return Library(recording, packed)


def _open(port: int, library: Library) -> Server:
    """A server on `port`, or on a free one where another program holds it."""
    try:
        return Server(port, library)
    except OSError as error:
        print(f"port {port} can't be had ({error.strerror}), taking a free one", file=sys.stderr)
        return Server(0, library)


def main(arguments: list[str]) -> int:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(prog="tinygrad.viz.serve", description=__doc__)
    parser.add_argument("--kernels", default=store.rewrites_path(), help="file of rewrites")
    parser.add_argument("--profile", default=store.profile_path(), help="file of profile events")
    parser.add_argument("--port", type=int, default=getenv("PORT", 8000), help="0 takes a free one")
    options = parser.parse_args(arguments)
    library = load_library(options.kernels, options.profile)
    if not library.listed and library.profile is None:
        print("nothing was recorded: run a program with VIZ=1", file=sys.stderr)
        return 1
    with _open(options.port, library) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        print(f"*** {address} shows the recording, ctrl-c ends", flush=True)
        if getenv("BROWSER", 0):
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("*** stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A TCP server for the visualiser and other local tools; apart from the rest because few programs serve anything."""

from __future__ import annotations

from socketserver import TCPServer
from typing import Any


class TCPServerWithReuse(TCPServer):
    """A server on the loopback address, unless told otherwise, whose port may be bound again as soon as it stops."""

    allow_reuse_address = True

    def __init__(self, server_address: tuple[str, int], RequestHandlerClass: Any):  # noqa: N803
        host, port = server_address
        print(f"*** serving on http://{host or '127.0.0.1'}:{port}")
        super().__init__((host or "127.0.0.1", port), RequestHandlerClass)

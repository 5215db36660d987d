"""`HCQGraph` at the import path users know; it lives in `tinygrad.engine.queue_graph`, a layer above this one."""

import importlib


def __getattr__(name: str) -> object:
    return getattr(importlib.import_module("tinygrad.engine.queue_graph"), name)

"""Leaves what a process recorded in files when it ends, and serves the page under VIZ=1.

Imported by the package when VIZ or PROFILE is set; otherwise nothing of the visualiser is loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence

from tinygrad.device import profile_sinks
from tinygrad.helpers import ProfileEvent, getenv
from tinygrad.uop.tracing import RewriteTrace, tracked_ctxs, tracked_keys, uop_fields
from tinygrad.viz import store


def finish(events: Sequence[ProfileEvent]) -> None:
    """Called once at exit, when the devices have told everything."""
    if multiprocessing.parent_process() is not None:
        return  # a worker: only the process that the user started has a page
    store.write(store.profile_path(), list(events))
    if not tracked_keys:
        return
    path = store.rewrites_path()
    store.write_rewrites(RewriteTrace(tracked_keys, tracked_ctxs, uop_fields), path)
    # drop-in: VIZ=-1 records only
    if getenv("VIZ", 0) > 0:
        serve(path)


def serve(path: str) -> None:
    """Replaces this process, whose memory is no longer needed, by the server."""
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, "-m", "tinygrad.viz.serve", "--kernels", path]
    command += ["--profile", store.profile_path()]
    quiet = {"VIZ": "0", "PROFILE": "0", "DEBUG": "0", "TRACK_MATCH_STATS": "0"}
    os.execve(sys.executable, command, {**os.environ, **quiet})


profile_sinks.append(finish)

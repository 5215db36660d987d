"""The first choice of optimisations, without search.

`hand_coded_optimizations` looks at the target's capabilities: wide vector registers (`vector.py`), launch dimensions
with local ones (`launch.py`), or neither, in which case the kernel stays as it is.
"""

from __future__ import annotations

from tinygrad.codegen.opt.postrange import Scheduler


def hand_coded_optimizations(k: Scheduler) -> Scheduler:
    """A copy of `k` with the heuristic's opts applied."""
    k = k.copy()
    if getattr(k.ren, "vector_bytes", 0):
        from tinygrad.codegen.opt.vector import optimise_for_vectors

        optimise_for_vectors(k)
    elif k.ren.has_local:
        from tinygrad.codegen.opt.launch import optimise_for_launch

        optimise_for_launch(k)
    return k

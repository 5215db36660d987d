"""Schedules that did not get to their end: an interruption, no memory left, a kernel that does not compile.

Tensors are on the buffers of a schedule before it runs, so what is left of one must not be forgotten: those buffers hold
nothing yet. It is finished before anything else is realized. What fails a second time is given up, and reading what it would
have computed is an error that tells why; so is nothing else. Called by `run_schedule` and Tensor.realize, under their lock.

Invariant: a step either has run or is left, never half of it: an interruption takes effect between two steps.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tinygrad.device import Buffer

if TYPE_CHECKING:
    from tinygrad.engine.realize import ExecItem

Values = dict[str, int] | None

# the steps of unfinished schedules, oldest first, with the values of their variables
_left: list[tuple[list[ExecItem], Values]] = []
# memory that was never filled, and why
_lost: WeakKeyDictionary[Buffer, str] = WeakKeyDictionary()


class BetweenSteps:
    """While it is entered, Ctrl-C is noted, and raised by `check`; a second one is raised at once."""

    def __enter__(self) -> BetweenSteps:
        self.noted, self._handler = False, None
        is_main = threading.current_thread() is threading.main_thread()
        # somebody else's handler may do anything, and is left alone
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handler = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: Any) -> None:
        if self.noted:
            raise KeyboardInterrupt
        self.noted = True

    def check(self) -> None:
        """Raises KeyboardInterrupt if there was one."""
        if self.noted:
            self.noted = False
            raise KeyboardInterrupt

    def __exit__(self, kind: type | None, *rest: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self.check()


def leave(items: Iterable[ExecItem], var_vals: Values) -> None:
    """Keeps steps that have not run, for `finish`."""
    if items := list(items):
        _left.append((items, var_vals))


def is_any_left() -> bool:
    """Whether there are steps that have not run."""
    return bool(_left)


def finish(run: Callable[[list[ExecItem], Values], None]) -> None:
    """Runs what is left of earlier schedules; what fails again is lost."""
    while _left:
        items, var_vals = _left.pop(0)
        try:
            run(list(items), var_vals)
        except Exception as error:
            _give_up(_left.pop()[0], error)
        except BaseException:
            _left.insert(0, _left.pop())
            raise


def _uses(item: ExecItem) -> tuple[list[Buffer], list[Buffer]]:
    """The memory that a step reads, and that which it writes."""
    bufs = [b for b in item.bufs if b is not None]
    facts = getattr(item.prg, "facts", None)
    if facts is None or len(bufs) != len(item.bufs):
        return bufs[1:], bufs[:1]
    return [bufs[slot] for slot in facts.ins], [bufs[slot] for slot in facts.outs]


def _give_up(items: list[ExecItem], error: Exception) -> None:
    for item in items:
        for buf in _uses(item)[1]:
            _lost[buf.base] = f"{type(error).__name__}: {error}"


def is_any_lost() -> bool:
    """Whether there is memory that a failed step was to fill."""
    return bool(_lost)


def require_computed(bufs: Iterable[Buffer]) -> None:
    """Raises RuntimeError for memory that was to be filled by a step that failed."""
    for buf in bufs if _lost else ():
        if (reason := _lost.get(buf.base)) is not None:
            raise RuntimeError(
                f"this was never computed, because a step before it failed ({reason}); build the tensor again"
            )


def run_step(item: ExecItem, launch: Callable[[], None]) -> None:
    """Launches a step, unless what it reads is lost; what it writes no longer is."""
    if not _lost:
        launch()
        return
    reads, writes = _uses(item)
    require_computed(reads)
    launch()
    for buf in writes:
        _lost.pop(buf.base, None)

"""Progress bars under the names users import. The line itself is the one of the `tqdm` package."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class tqdm(Generic[T]):
    """A progress bar over an iterable, or driven by `update`. Redraws at most `rate` times a second."""

    def __init__(
        self,
        iterable: Iterable[T] | None = None,
        desc: str = "",
        disable: bool = False,
        unit: str = "it",
        unit_scale: bool = False,
        total: int | None = None,
        rate: int = 100,
    ):
        self.iterable, self.disable, self.unit, self.unit_scale, self.rate = (
            iterable,
            disable,
            unit,
            unit_scale,
            rate,
        )
        self.start, self.i, self.n, self.skip = time.perf_counter(), -1, 0, 1
        known = len(iterable) if total is None and hasattr(iterable, "__len__") else total  # type: ignore[arg-type]
        self.t = known or 0
        self.set_description(desc)
        self.update(0)

    def __iter__(self) -> Iterator[T]:
        assert self.iterable is not None, "this bar has no iterable: give one, or call update()"
        for item in self.iterable:
            yield item
            self.update(1)
        self.update(close=True)

    def __enter__(self) -> tqdm[T]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.update(close=True)

    def set_description(self, desc: str) -> None:
        self.desc = desc

    def update(self, n: int = 0, close: bool = False) -> None:
        """Adds `n` finished items; `close` draws the last state and ends the line."""
        self.n, self.i = self.n + n, self.i + 1
        if self.disable or (not close and self.i % self.skip != 0):
            return
        elapsed = time.perf_counter() - self.start
        if elapsed and self.i / elapsed > self.rate and self.i:
            self.skip = max(int(self.i / elapsed) // self.rate, 1)
        sys.stderr.write("\r" + self._line(elapsed) + ("\n" if close else ""))
        sys.stderr.flush()

    def _line(self, elapsed: float) -> str:
        from tqdm.std import (
            tqdm as drawn,
        )  # a bar is rare, so importing tinygrad should not pay for it

        columns = shutil.get_terminal_size().columns
        return drawn.format_meter(
            n=self.n,
            total=self.t,
            elapsed=elapsed if self.n else 0,
            ncols=columns,
            prefix=self.desc.removesuffix(": "),
            unit=self.unit,
            unit_scale=self.unit_scale,
        )

    @classmethod
    def write(cls, s: str) -> None:
        """Prints a line above the bar."""
        sys.stderr.write(f"\r\x1b[K{s}\n")
        sys.stderr.flush()


class trange(tqdm):
    """`tqdm(range(n))`."""

    def __init__(self, n: int, **kwargs: object):
        super().__init__(iterable=range(n), total=n, **kwargs)  # type: ignore[arg-type]

"""Text for terminals and for generated code: colours, wrapping, names, times."""

from __future__ import annotations

import re

from tinygrad.common.env import getenv

NO_COLOR = bool(getenv("NO_COLOR", ""))
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_BRACKET = re.compile(r"[()]")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def colored(st: object, color: str | None, background: bool = False) -> str:
    """`st` between ANSI colour codes; an upper-case colour is the bright one, None leaves the text alone.

    So does an environment variable NO_COLOR that is not empty (no-color.org).
    """
    if color is None or NO_COLOR:
        return str(st)
    code = 30 + _COLOURS.index(color.lower())
    if color.isupper():
        code += 60
    if background:
        code += 10
    return f"\x1b[{code}m{st}\x1b[0m"


def colorize_float(x: float) -> str:
    """A ratio, green when clearly below 1, red when clearly above."""
    shade = "green" if x < 0.75 else ("red" if x > 1.15 else "yellow")
    return colored(f"{x:7.2f}x", shade)


def ansistrip(s: str) -> str:
    """The text without terminal colour codes.

    >>> ansistrip(colored("x", "red"))
    'x'
    """
    return _ANSI.sub("", s)


def ansilen(s: str) -> int:
    """The number of characters that a terminal shows.

    >>> ansilen(colored("red", "red"))
    3
    """
    return len(ansistrip(s))


def word_wrap(x: str, wrap: int = 80) -> str:
    """Breaks every line after `wrap` visible characters, keeping colour codes whole.

    >>> word_wrap("abcdef", wrap=4).split()
    ['abcd', 'ef']
    """
    return "\n".join(piece for line in x.split("\n") for piece in _wrap_line(line, wrap))


def _wrap_line(line: str, wrap: int) -> list[str]:
    pieces: list[str] = []
    current, shown = "", 0
    for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", line):
        visible = not token.startswith("\x1b[")
        if visible and shown == wrap:
            pieces.append(current)
            current, shown = "", 0
        current += token
        shown += visible
    return [*pieces, current]


def strip_parens(fst: str) -> str:
    """Drops one pair of parentheses that encloses the whole text.

    >>> strip_parens("(a+b)"), strip_parens("(a)+(b)")
    ('a+b', '(a)+(b)')
    """
    if len(fst) < 2 or fst[0] != "(" or fst[-1] != ")":
        return fst
    inner = fst[1:-1]
    closing = inner.find(")")
    if closing < 0:
        return fst if "(" in inner else inner
    if "(" not in inner[:closing]:
        # the first pair that closes is the one that fst opens with
        return fst
    depth = 1
    for bracket in _BRACKET.findall(inner):
        depth += 1 if bracket == "(" else -1
        if depth == 0:
            return fst
    return inner if depth == 1 else fst


def to_function_name(s: str) -> str:
    """A C identifier from a display name: colours dropped, other characters as their hexadecimal code.

    >>> to_function_name("r_3 4")
    'r_3204'
    """
    return re.sub(r"[^0-9A-Za-z_]", lambda m: f"{ord(m.group()):02X}", ansistrip(s))


def time_to_str(t: float, w: int = 8) -> str:
    """A duration in seconds with a unit, the number right-aligned in `w` characters.

    >>> time_to_str(0.0015)
    ' 1500.00us'
    """
    for limit, scale, unit in ((10, 1, "s "), (0.01, 1e3, "ms")):
        if t > limit:
            return f"{t * scale:{w}.2f}{unit}"
    return f"{t * 1e6:{w}.2f}us"


def size_to_str(s: int) -> str:
    for shift, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if s >= 1 << shift:
            return f"{s / (1 << shift):.2f} {unit}"
    return f"{s} B"


def pluralize(st: str, cnt: int) -> str:
    return f"{cnt} {st}" + ("" if cnt == 1 else "s")

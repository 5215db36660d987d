"""Text to token numbers and back: byte pair encoding over the words that a pattern cuts (Sennrich et al., arXiv:1508.07909).

A vocabulary spells every byte as one printable character (the byte alphabet of GPT-2, which GGUF files keep), so a token
may end within a character of UTF-8. Special tokens are found first and never merged with their surroundings. Called by
the chat program and the server.
"""

from __future__ import annotations

import functools
import heapq
import re
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

# kinds of tokens in `tokenizer.ggml.token_type`
_NORMAL, _BYTE = 1, 6

# the White_Space property of Unicode; `\s` of `re` has four control characters more
_SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"


@functools.cache
def _byte_alphabet() -> tuple[dict[int, str], dict[str, int]]:
    """Each byte's character and the other way round: printable Latin-1 stands for itself, the rest count from 256."""
    own = set(range(0x21, 0x7F)) | set(range(0xA1, 0x100)) - {0xAD}
    moved = iter(range(0x100, 0x200))
    spelled = {byte: chr(byte if byte in own else next(moved)) for byte in range(256)}
    return spelled, {char: byte for byte, char in spelled.items()}


@functools.cache
def _category(letter: str) -> str:
    """The characters whose Unicode category starts with `letter`, as ranges for a bracket of `re`."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] == letter:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


def _words_gpt2(letter: str, digit: str) -> list[str]:
    """Contractions in lower case; runs of letters, digits or signs, each with the blank before it."""
    return [
        "'(?:s|t|re|ve|m|ll|d)",
        f" ?[{letter}]+",
        f" ?[{digit}]+",
        f" ?[^{_SPACE}{letter}{digit}]+",
        f"[{_SPACE}]+(?![^{_SPACE}])",
        f"[{_SPACE}]+",
    ]


def _words_modern(letter: str, digit: str, most_digits: int) -> list[str]:
    """As above, but any sign may lead a word, numbers are cut short and line ends stay with what is before them."""
    return [
        "(?i:'(?:s|t|re|ve|m|ll|d))",
        f"[^\\r\\n{letter}{digit}]?[{letter}]+",
        f"[{digit}]{{1,{most_digits}}}",
        f" ?[^{_SPACE}{letter}{digit}]+[\\r\\n]*",
        f"[{_SPACE}]*[\\r\\n]+",
        f"[{_SPACE}]+(?![^{_SPACE}])",
        f"[{_SPACE}]+",
    ]


# `tokenizer.ggml.pre` -> (digits per number or None for GPT-2's words, form of a turn)
_PRESETS: dict[str, tuple[int | None, str]] = {
    "llama3": (3, "header"),
    "llama-v3": (3, "header"),
    "llama-bpe": (3, "header"),
    "dbrx": (3, "im"),
    "smaug-bpe": (3, "header"),
    "qwen2": (1, "im"),
    "olmo": (3, "bar"),
    "gpt-2": (None, "im"),
    "gpt2": (None, "im"),
    "default": (None, "im"),
}

# form -> (before the role, after the role, after the end token)
_TURNS = {
    "header": ("<|start_header_id|>", "<|end_header_id|>\n\n", ""),
    "im": ("<|im_start|>", "\n", "\n"),
    "bar": ("<|", "|>\n", "\n"),
}


@functools.cache
def _word_pattern(most_digits: int | None) -> re.Pattern:
    letter, digit = _category("L"), _category("N")
    if most_digits is None:
        parts = _words_gpt2(letter, digit)
    else:
        parts = _words_modern(letter, digit, most_digits)
    return re.compile("|".join(parts))


class SimpleTokenizer:
    """A byte pair tokenizer whose merges are ranked by the number of the token they give.

    `normal_tokens` spells tokens in the byte alphabet, `special_tokens` as plain text. `preset` names how words are cut
    and how a chat writes its turns (`tokenizer.ggml.pre` of GGUF). Where `merges` gives "left right" pairs, best first, they
    rank the merges instead. Raises ValueError for an unknown preset.
    """

    def __init__(
        self,
        normal_tokens: dict[str, int],
        special_tokens: dict[str, int],
        preset: str = "llama3",
        merges: list[str] | None = None,
    ):
        if preset not in _PRESETS:
            raise ValueError(f"unknown tokenizer preset {preset!r}; known: {', '.join(_PRESETS)}")
        most_digits, turn = _PRESETS[preset]
        self.preset = preset
        self._normal, self._special = normal_tokens, special_tokens
        self._words, self._turn = _word_pattern(most_digits), _TURNS[turn]
        longest_first = sorted(special_tokens, key=len, reverse=True)
        self._cut = re.compile("|".join(map(re.escape, longest_first))) if special_tokens else None
        self._merges = None if merges is None else {m: rank for rank, m in enumerate(merges)}
        from_char = _byte_alphabet()[1]
        self._bytes = {
            number: bytes(from_char[c] for c in text)
            for text, number in normal_tokens.items()
            if all(c in from_char for c in text)
        }
        self._bytes.update((number, text.encode()) for text, number in special_tokens.items())

    @staticmethod
    def from_gguf_kv(kv: dict) -> SimpleTokenizer:
        """The tokenizer that the metadata of a GGUF file describes. Raises ValueError for another model than BPE."""
        kind = kv.get("tokenizer.ggml.model", "gpt2")
        if kind != "gpt2":
            raise ValueError(f"the tokenizer model is {kind!r}, only byte pairs ('gpt2') are read")
        texts = kv["tokenizer.ggml.tokens"]
        kinds = kv.get("tokenizer.ggml.token_type") or [_NORMAL] * len(texts)
        normal: dict[str, int] = {}
        special: dict[str, int] = {}
        for number, (text, token_kind) in enumerate(zip(texts, kinds, strict=True)):
            (normal if token_kind in (_NORMAL, _BYTE) else special)[text] = number
        return SimpleTokenizer(
            normal,
            special,
            kv.get("tokenizer.ggml.pre", "default"),
            kv.get("tokenizer.ggml.merges"),
        )

    # ---- text and numbers

    def encode(self, text: str) -> list[int]:
        """The numbers of `text`. Special tokens that it spells out count as such."""
        out: list[int] = []
        start = 0
        for found in self._cut.finditer(text) if self._cut is not None else ():
            out.extend(self._encode_plain(text[start : found.start()]))
            out.append(self._special[found.group()])
            start = found.end()
        out.extend(self._encode_plain(text[start:]))
        return out

    def decode(self, ids: list[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD. Raises KeyError for an unknown number."""
        return b"".join(self._bytes[number] for number in ids).decode("utf-8", errors="replace")

    def _encode_plain(self, text: str) -> Iterator[int]:
        spelled = _byte_alphabet()[0]
        for word in self._words.findall(text):
            yield from self._encode_word(
                "".join(spelled[b] for b in word.encode("utf-8", "surrogatepass"))
            )

    def _rank(self, left: str, right: str) -> int | None:
        """How early two neighbours are merged, None if never."""
        if self._merges is not None:
            return self._merges.get(f"{left} {right}")
        return self._normal.get(left + right)

    def _encode_word(self, word: str) -> list[int]:
        """Merges the best ranked neighbours until none is left, the leftmost of equals first.

        A heap of candidates and links between live pieces keep it at O(n log n); candidates of pieces that have grown
        since are passed over. A word that is a token needs no merges: some vocabularies have tokens that none lead to.
        """
        if word in self._normal:
            return [self._normal[word]]
        pieces: list[Any] = list(word)  # None where a piece was merged into its neighbour
        after = list(range(1, len(pieces) + 1))
        before = list(range(-1, len(pieces) - 1))
        heap: list[tuple[int, int, str, str]] = []

        def offer(left: int) -> None:
            right = after[left] if left >= 0 else len(pieces)
            if right < len(pieces):
                a, b = pieces[left], pieces[right]
                rank = self._rank(a, b)
                if rank is not None:
                    heapq.heappush(heap, (rank, left, a, b))

        for at in range(len(pieces) - 1):
            offer(at)
        while heap:
            _, left, a, b = heapq.heappop(heap)
            right = after[left]
            if pieces[left] != a or right >= len(pieces) or pieces[right] != b:
                continue
            pieces[left], pieces[right] = a + b, None
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            offer(left)
            offer(before[left])
        return [self._normal[piece] for piece in pieces if piece is not None]

    # ---- turns of a chat

    def role(self, role: str) -> list[int]:
        """What opens a turn of `role` ("system", "user", "assistant")."""
        opening, closing, _ = self._turn
        return self.encode(f"{opening}{role}{closing}")

    def end_turn(self, eos_id: int) -> list[int]:
        """What closes a turn: the end token and what the form of the chat writes after it."""
        return [eos_id, *self.encode(self._turn[2])]

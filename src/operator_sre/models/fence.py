"""External text in marked blocks that the text itself cannot close."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

__all__ = ["Fence", "clean", "estimate_tokens", "redact_whole", "shorten"]

# Words of up to nine letters, single digits, pairs of signs, line ends: about what byte-pair
# tokenizers make of prompts with JSON, times and numbers (Qwen2.5: within 12 % on our prompts).
_TOKEN = re.compile(r"[A-Za-z]{1,9}|[0-9]|[^\w\s]{1,2}|_|\n+|[^\x00-\x7f]")


def estimate_tokens(text: str) -> int:
    """About how many tokens the text has."""
    return sum(1 for _ in _TOKEN.finditer(text))


BOUNDARY_CHARS = 20
# How much is searched for secrets before anything is cut; what an action says is far shorter.
SEARCHED_CHARS_MAX = 1_000_000
# Where a text ends because it was too long to be searched, half a secret may stand: not shown.
EDGE_CHARS = 4_096
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)")
# Control characters, lone surrogates and invisible characters hide instructions and forge lines.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# What looks like a mark of ours, with whatever boundary.
_MARKS = re.compile(r"<<(?=\s*(?:end\s+of|data|gate)\b)", re.IGNORECASE)


def clean(text: str) -> str:
    """The text as people would see it: no terminal codes, nothing invisible, valid Unicode."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def redact_whole(text: str, redact: Callable[[str], str]) -> str:
    """The whole text without secrets, or the beginning of a text too long to be searched.

    It comes before anything is cut, because half of a secret is not recognised as one.
    """
    if len(text) <= SEARCHED_CHARS_MAX:
        return redact(text)
    kept = redact(text[:SEARCHED_CHARS_MAX])[:-EDGE_CHARS]
    beyond = len(text) - SEARCHED_CHARS_MAX + EDGE_CHARS
    return f"{kept}\n[about {beyond} characters at the end omitted: too long to search for secrets]"


def shorten(text: str, chars_max: int) -> str:
    """The beginning and the end of a text that is too long, with how much is left out."""
    if len(text) <= chars_max:
        return text
    note = f"\n[{len(text) - chars_max} characters omitted]\n"
    kept = max(chars_max - len(note), 0)
    return text[: kept - kept // 2] + note + (text[-(kept // 2) :] if kept > 1 else "")


def _keep_last(lines: Sequence[str], chars_max: int) -> list[str]:
    """As many of the last lines as fit, and always one."""
    kept: list[str] = []
    for line in reversed(lines):
        chars_max -= len(line) + 1
        if kept and chars_max < 0:
            break
        kept.append(line)
    return kept[::-1]


class Fence:
    """Marks blocks with a boundary that only the run knows."""

    def __init__(self, run: str, *, redact: Callable[[str], str] = str) -> None:
        digest = hashlib.sha256(f"fence of {run}".encode("utf-8", "replace")).hexdigest()
        self.boundary = digest[:BOUNDARY_CHARS]
        self._redact = redact
        self._own = re.compile(re.escape(self.boundary), re.IGNORECASE)

    def block(
        self, title: str, text: str, *, chars_max: int, seq: int | None = None, kind: str = "data"
    ) -> str:
        """The text between two marks; `seq` is the ledger entry by which it is cited."""
        cite = "" if seq is None else f" seq={seq}"
        mark = f"{kind} {self.boundary}"
        inside = self.inside(text, chars_max)
        return f"<<{mark}{cite}: {self.inside(title, 120)}>>\n{inside}\n<<end of {mark}>>"

    def newest(self, lines: Sequence[str], chars_max: int) -> str:
        """The last of these lines, without secrets; whole lines, so that none is cut in two."""
        near = _keep_last(lines, SEARCHED_CHARS_MAX)
        kept = _keep_last(self._redact("\n".join(near)).split("\n"), chars_max)
        older = ["[older lines omitted]"] if len(kept) < len(lines) else []
        return "\n".join([*older, *kept])

    def redact(self, text: str) -> str:
        """The whole text without secrets, or the beginning of a text too long to be searched."""
        return redact_whole(text, self._redact)

    def inside(self, text: str, chars_max: int) -> str:
        """The text as it may stand in a block: without secrets, short, and without the boundary."""
        shown = clean(shorten(self.redact(text), chars_max))
        return self._own.sub("[copy of the marker removed]", _MARKS.sub("< <", shown))

"""Redacting text as it arrives, with the secrets that lie across lines."""

from __future__ import annotations

from collections import Counter

from operator_sre.ledger.redaction.assignments import open_assignment
from operator_sre.ledger.redaction.lists import open_words
from operator_sre.ledger.redaction.manifests import find_manifest
from operator_sre.ledger.redaction.nouns import open_noun
from operator_sre.ledger.redaction.pem import open_pem
from operator_sre.ledger.redaction.redactor import Redactor
from operator_sre.ledger.redaction.scan import Layout

__all__ = ["Stream"]

HELD_CHARACTERS_MAX = 65_536
LINE_CHARACTERS_MAX = 1_048_576


class Stream:
    """Redacts a text that comes in parts; memory is bounded by one line and one held block."""

    def __init__(self, redactor: Redactor) -> None:
        self.counts: Counter[str] = Counter()
        self._redactor = redactor
        self._layout = Layout()
        self._rest = ""  # a line without its end
        self._held = ""  # whole lines whose end decides what they are

    def feed(self, text: str) -> str:
        """What can be said after this much more of the text: whole lines, redacted."""
        self._rest += text
        end = self._rest.rfind("\n") + 1
        if not end and len(self._rest) >= LINE_CHARACTERS_MAX:
            # No line is that long. Where there is a blank, it is the best place to cut.
            end = self._rest.rfind(" ") + 1 or len(self._rest)
        if not end:
            return ""
        lines, self._rest = self._held + self._rest[:end], self._rest[end:]
        self._held = ""
        at = self._open_at(lines)
        if at is not None and len(lines) - at < HELD_CHARACTERS_MAX:
            lines, self._held = lines[:at], lines[at:]
        return self._redacted(lines)

    def end(self) -> str:
        """What is left when the text is over."""
        last, self._held, self._rest = self._held + self._rest, "", ""
        return self._redacted(last)

    def _redacted(self, text: str) -> str:
        if not text:
            return ""
        redacted, counts = self._redactor.counted(text, self._layout)
        self.counts += counts
        return redacted

    def _open_at(self, lines: str) -> int | None:
        """Where the first block begins that goes on after these lines."""
        data = lines.encode("utf-8", "surrogatepass")
        places = [open_pem(data), open_assignment(data), open_noun(data), open_words(data)]
        if b"data" in data or b"stringData" in data:
            state = self._layout.manifest.copy()
            list(find_manifest(data, state))  # what it finds is not asked for, only where it ends
            places.append(state.unresolved())
        found = [place for place in places if place is not None]
        if not found:
            return None
        return len(data[: min(found)].decode("utf-8", "surrogatepass"))

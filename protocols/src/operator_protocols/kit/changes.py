"""What became different at a target: settings, files, limits, accounts, members. Pure."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from operator_protocols.domain.change import Change

__all__ = ["ChangeLog", "hide_secret"]

KEPT = timedelta(hours=1)
CHANGES_MAX = 40
# A value that changes more often than this is no evidence.
OFTEN = 3
VALUE_CHARS_MAX = 200
_SECRET = re.compile(
    r"pass|secret|token|credential|private|masterauth|requirepass|conninfo|^user$", re.I
)
_SALT = secrets.token_bytes(16)


class ChangeLog:
    """Remembers the last state of every target, and lists what has become different since.

    A state is a mapping from names to short texts, by its source. What goes back to its former
    value is no change any more.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], dict[str, str]] = {}
        self._changes: dict[tuple[str, str, str], Change] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def note(self, target: str, source: str, state: Mapping[str, str], at: datetime) -> None:
        """Compare this state with the last one. The first state of a source is no change."""
        new = {name: value[:VALUE_CHARS_MAX] for name, value in state.items()}
        old = self._states.get((target, source))
        self._states[target, source] = new
        if old is None or old == new:
            return
        for name in sorted(old.keys() | new.keys()):
            was, now = old.get(name, ""), new.get(name, "")
            if was == now:
                continue
            key = target, source, name
            self._counts[key] += 1
            known = self._changes.pop(key, None)
            first = was if known is None else known.before
            if first != now and self._counts[key] <= OFTEN:
                self._changes[key] = Change(target, name, first, now, at, source)

    def knows(self, target: str, source: str) -> bool:
        """Whether a state of this source was noted."""
        return (target, source) in self._states

    def recent(self, at: datetime) -> tuple[Change, ...]:
        """The changes of the last hour, oldest first; of many the newest."""
        for key in [key for key, change in self._changes.items() if at - change.at > KEPT]:
            del self._changes[key]
        return tuple(sorted(self._changes.values(), key=lambda change: change.at)[-CHANGES_MAX:])


def hide_secret(name: str, value: str) -> str:
    """The value of a setting; of a secret only a mark, which differs when the secret does.

    Each process has its own salt, so that no one can search for the secret by its mark.
    """
    if not value or not _SECRET.search(name):
        return value
    mark = hashlib.blake2s(value.encode(errors="replace"), key=_SALT, digest_size=3).hexdigest()
    return f"(secret {mark})"

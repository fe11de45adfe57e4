"""Whether a stopped server still has the data files that it wrote while it worked."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

__all__ = ["DataFiles"]

FILES_MAX = 2000
# A table or a snapshot may shrink while a server cleans up, but hardly by more than this.
SHRINK_RATIO_MAX = 0.5


@dataclass(frozen=True, slots=True)
class _Mark:
    """What identifies the data of a server: inode and size of its logs, sizes of other files.

    `newest` is the log of each directory that it wrote last, because names of logs count up.
    """

    logs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def newest(self) -> dict[str, str]:
        """The name of the last log of each directory."""
        return {name.rpartition("/")[0]: name for name in sorted(self.logs, key=_order)}


def _mark_files(place: Path, logs: Iterable[str], others: Iterable[str] = ()) -> _Mark:
    """The mark of the files below this directory that match these patterns."""
    return _Mark(
        {name: (inode, size) for name, inode, size in _list_files(place, logs)},
        {name: size for name, _, size in _list_files(place, others)},
    )


def _is_intact(before: _Mark, now: _Mark) -> bool:
    """Whether the server may have left these files when it stopped.

    It did not when a log is another file or shorter than before, as after a restore, or when
    other files are gone or much smaller.
    """
    latest = now.newest
    for folder, newest in before.newest.items():
        if newest not in now.logs and _order(latest.get(folder, "")) <= _order(newest):
            return False
    for name, (inode, size) in before.logs.items():
        if name in now.logs and (now.logs[name][0] != inode or now.logs[name][1] < size):
            return False
    kept = sum(now.others.values())
    if before.others and kept < sum(before.others.values()) * SHRINK_RATIO_MAX:
        return False
    return all(
        now.others[name] >= size * SHRINK_RATIO_MAX
        for name, size in before.others.items()
        if name in now.others
    )


class DataFiles:
    """Remembers the files of servers that work, and compares them once they have stopped.

    `logs` are the patterns of files that a server only appends to, `others` those of other files
    without which its data is lost. All observers in a process share what they saw: a monitor
    and an agent each have an object of the same subject.
    """

    _marks: ClassVar[dict[str, _Mark]] = {}
    _latest: ClassVar[dict[str, _Mark]] = {}

    def __init__(self, logs: Iterable[str], others: Iterable[str] = ()) -> None:
        self._logs, self._others = tuple(logs), tuple(others)

    def are_present(self, place: Path) -> bool:
        """Whether there is a file with data at all."""
        mark = _mark_files(place, self._logs, self._others)
        return any(size for _, size in mark.logs.values()) or any(mark.others.values())

    def compare(self, name: str, place: Path | None, *, works: bool) -> bool | None:
        """Whether the data of this server is intact; None where it was not seen to work twice.

        `name` is its data directory as it is configured, and `place` where that is seen now. What a
        check saw counts once the next one finds the server working too: it may have stopped
        during the check, and its data may have been changed since.
        """
        if place is None:
            return None
        mark = _mark_files(place, self._logs, self._others)
        if works:
            if name in self._latest:
                self._marks[name] = self._latest[name]
            self._latest[name] = mark
            return True
        self._latest.pop(name, None)
        before = self._marks.get(name)
        return None if before is None else _is_intact(before, mark)


def _order(name: str) -> tuple[int, str]:
    return len(name), name


def _list_files(place: Path, patterns: Iterable[str]) -> list[tuple[str, int, int]]:
    found = []
    with contextlib.suppress(OSError, ValueError):
        for pattern in patterns:
            for number, file in enumerate(place.glob(pattern)):
                if number >= FILES_MAX:
                    break
                with contextlib.suppress(OSError):
                    status = file.stat()
                    if stat.S_ISREG(status.st_mode):
                        name = str(file.relative_to(place))
                        found.append((name, status.st_ino, status.st_size))
    return found

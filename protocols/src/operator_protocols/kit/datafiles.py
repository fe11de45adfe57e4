"""Whether a stopped server still has the data files that it wrote while it worked."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

__all__ = ["DataFiles"]

FILES_MAX = 2000
# A table or a snapshot may shrink while a server cleans up, but hardly by more than this.
SHRINK_RATIO_MAX = 0.5
# How often what only grew is written down, and how long a file of that may be.
KEPT_EVERY = 20
KEPT_BYTES_MAX = 4 << 20


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
    and an agent each have an object of the same subject. What they saw outlives the process in the
    folder that `keep_in` names.
    """

    _marks: ClassVar[dict[str, _Mark]] = {}
    _latest: ClassVar[dict[str, _Mark]] = {}
    _written: ClassVar[dict[str, int]] = {}
    _folder: ClassVar[Path | None] = None

    @classmethod
    def keep_in(cls, folder: Path | None) -> None:
        """Write down what was seen in this folder; None keeps it in memory alone."""
        cls._folder = folder

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
                self._remember(name, self._latest[name])
            self._latest[name] = mark
            return True
        self._latest.pop(name, None)
        if name not in self._marks and (written := self._read(name)) is not None:
            self._marks[name] = written
        before = self._marks.get(name)
        return None if before is None else _is_intact(before, mark)

    def _remember(self, name: str, mark: _Mark) -> None:
        """Remember a mark, and write it down when files came or went, or after a while."""
        before, count = self._marks.get(name), self._written.get(name, 0) + 1
        self._marks[name], self._written[name] = mark, count
        same = before is not None and (before.logs.keys(), before.others.keys()) == (
            mark.logs.keys(),
            mark.others.keys(),
        )
        nothing = not (mark.logs or mark.others)  # that would call an empty folder intact
        if self._folder is None or nothing or (same and count % KEPT_EVERY):
            return
        body = json.dumps({"name": name, "logs": mark.logs, "others": mark.others})
        file = _file_of(self._folder, name)
        part = file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):  # then it is known until this process ends
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(body, encoding="utf-8")
            part.replace(file)

    def _read(self, name: str) -> _Mark | None:
        """What an earlier process, or another one, has written down."""
        if self._folder is None:
            return None
        try:
            with _file_of(self._folder, name).open("rb") as file:
                found = json.loads(file.read(KEPT_BYTES_MAX))
            logs = {
                str(log): (int(inode), int(size)) for log, (inode, size) in found["logs"].items()
            }
            others = {str(other): int(size) for other, size in found["others"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        return _Mark(logs, others) if found["name"] == name else None


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:32]}.json"


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

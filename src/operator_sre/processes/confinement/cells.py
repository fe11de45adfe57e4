"""The cells of a runner, and what the processes of a session use: each command gets a cell."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from operator_sre.processes.confinement.cell import Cell, Walls, Zygote
from operator_sre.processes.confinement.landlock import Reads

__all__ = ["Cells", "Usage", "free_bytes", "needs_read_search", "usage_of"]

TASKS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Usage:
    """How many processes and threads there are, the memory that is theirs, and their open files.

    A socket or a pipe holds memory of the kernel, which is no process's own.
    """

    tasks: int
    memory_bytes: int
    descriptors: int = 0


def usage_of(roots: Iterable[int], *, memory: bool = True) -> Usage:
    """What these processes and all that came out of them use now."""
    waiting, seen = list(roots), set[int]()
    tasks = used = opened = 0
    while waiting and len(seen) < TASKS_MAX:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                tasks += 1
                with contextlib.suppress(OSError):
                    waiting += map(int, (task / "children").read_text().split())
            if memory:
                # What a process holds that is no file, with the tables of its pages. A page that
                # several share counts in parts; in full for a process that does not let us see it.
                state = _fields(Path(f"/proc/{pid}/status").read_text())
                tables_kib = int(state.get("VmPTE", "0").split()[0])
                try:
                    parts = _fields(Path(f"/proc/{pid}/smaps_rollup").read_text())
                    names = ("Pss_Anon", "Pss_Shmem")
                except PermissionError:
                    parts, names = state, ("RssAnon", "RssShmem")
                memory_bytes = (
                    tables_kib + sum(int(parts.get(name, "0").split()[0]) for name in names)
                ) * 1024
                used += memory_bytes
                # How many files a process has open; older kernels do not tell it without a list of
                # them.
                folder = f"/proc/{pid}/fd"
                descriptors = os.stat(folder).st_size or len(os.listdir(folder))
                opened += descriptors
    return Usage(tasks, used, opened)


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value for name, mark, value in lines if mark}


def free_bytes() -> tuple[int, int]:
    """The memory that this machine could still give, and all that it has."""
    found = {"MemAvailable": 1 << 62, "MemTotal": 1 << 62}
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0]) * 1024
    return found["MemAvailable"], found["MemTotal"]


SPARE = 3
RULESETS_MAX = 8
TEMPORARY = "tmp"
PATHS_MAX = 64
# What lies in them has its own rules.
OPEN_FOLDERS = ("/", "/proc", "/sys", "/usr", "/etc", "/boot")

log = logging.getLogger(__name__)


class Cells:
    """Builds cells, keeps a few that are most likely needed next, and their rulesets."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve() / TEMPORARY
        self._zygote: Zygote | None = None
        self._spare: list[tuple[Cell, Reads]] = []
        self._rulesets: dict[tuple[object, ...], Reads] = {}
        _remove(str(self._folder))

    def without_cells(self, pids: set[int]) -> set[int]:
        """The commands among some children of the runner."""
        if self._zygote is None or not (pids := pids - {self._zygote.pid}):
            return pids
        for cell, _ in self._spare:  # which may wait for the zygote, so only when it matters
            with contextlib.suppress(OSError):
                pids.discard(cell.pid)
        return pids

    def take(self, walls: Walls) -> Cell:
        """A cell with these walls, confined and waiting; OSError when there can be none."""
        reads = self._reads(walls) if walls.profile is not None else None
        for place, (cell, theirs) in enumerate(self._spare):
            if cell.walls == walls and theirs is reads:
                del self._spare[place]
                try:
                    cell.confirm()
                except OSError as error:
                    log.warning("a prepared cell cannot be used: %s", error)
                    self._discard(cell)
                    break
                return cell
        cell = self._build(walls, reads)
        try:
            cell.confirm()
        except BaseException:
            self._discard(cell)
            raise
        return cell

    def restock(self, walls: Walls) -> None:
        """Have a few cells with these walls wait for the next commands."""
        with contextlib.suppress(OSError):
            reads = self._reads(walls)
            fitting = [each for each in self._spare if each[0].walls == walls and each[1] is reads]
            for cell, _ in self._spare:
                if not any(cell is item for item, _ in fitting):
                    self._discard(cell)
            self._spare = fitting
            for cell, _ in fitting[:1]:  # the next; the others may not be ready yet
                cell.confirm()
            while len(self._spare) < SPARE:
                self._spare.append((self._build(walls, reads), reads))

    def clean(self, cell: Cell) -> None:
        """Remove what a command left in its folder, which is mostly nothing."""
        if not cell.temporary:
            return
        try:
            os.rmdir(cell.temporary)
        except OSError:
            _remove(cell.temporary)

    def close(self) -> None:
        """Let all of them end."""
        for cell, _ in self._spare:
            self._discard(cell)
        self._spare.clear()
        for reads in self._rulesets.values():
            reads.close()
        self._rulesets.clear()
        if self._zygote is not None:
            self._zygote.close()
        _remove(str(self._folder))

    def _discard(self, cell: Cell) -> None:
        cell.discard()
        self.clean(cell)

    def _reads(self, walls: Walls) -> Reads:
        """The ruleset of readable paths, created again when a listed folder has changed."""
        key = (walls.hidden, walls.shown, walls.devices)
        known = self._rulesets.get(key)
        if known is not None and known.is_current():
            return known
        # Commands may read below it, and cannot list it: each knows the name of its own folder.
        self._folder.mkdir(mode=0o300, parents=True, exist_ok=True)
        made = Reads(
            walls.hidden,
            shown=(str(self._folder), *walls.shown),
            devices=walls.devices,
        )
        if known is not None:
            known.close()
        elif len(self._rulesets) >= RULESETS_MAX:
            self._rulesets.pop(next(iter(self._rulesets))).close()
        self._rulesets[key] = made
        return made

    def _build(self, walls: Walls, reads: Reads | None) -> Cell:
        if self._zygote is None:
            self._zygote = Zygote()
        temporary = ""
        if walls.profile is not None:
            temporary = str(self._folder / secrets.token_hex(8))
            os.mkdir(temporary, 0o700)
        try:
            return self._zygote.build(walls, reads.fd if reads is not None else -1, temporary)
        except OSError:
            self._zygote.close()
            self._zygote = None  # it may have been killed: the next cell gets another one
            raise


def _remove(folder: str) -> None:
    """Remove a folder with all that is in it, also folders that their owner may not list.

    A link in it may lead anywhere, so that nothing is reached by its path.
    """
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
        for _, names, _, at in os.fwalk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                    try:
                        os.chmod(f"/proc/self/fd/{fd}", 0o700)
                    finally:
                        os.close(fd)
    shutil.rmtree(folder, ignore_errors=True)


def needs_read_search(paths: Iterable[str], cwd: str) -> bool:
    """Whether root has to keep the right to read other users' files for this.

    A folder that is to be read may have files of anybody in it, so it counts as closed.
    """
    for path in [*paths][:PATHS_MAX]:
        plain = re.split(r"[*?\[]", path, maxsplit=1)[0]
        folder = plain.rpartition("/")[0] if plain != path else path
        if not _is_open_to_root(folder or "/", inside=False):
            return True
    return not _is_open_to_root(cwd, inside=True)


def _is_open_to_root(path: str, *, inside: bool) -> bool:
    """Whether owner and mode let root read a path; with `inside`, a folder may be read as well."""
    here, is_folder = "/", True
    for part in os.path.realpath(path).strip("/").split("/"):
        here = os.path.join(here, part)
        try:
            state = os.stat(here)
        except OSError:
            return True  # there is nothing to read
        shift = 6 if state.st_uid == 0 else 3 if state.st_gid == 0 else 0
        is_folder = stat.S_ISDIR(state.st_mode)
        if not (state.st_mode >> shift) & (1 if is_folder else 4):
            return False
    return inside or not is_folder or here in OPEN_FOLDERS

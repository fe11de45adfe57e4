"""What a target on this machine runs with: limits, ports, arguments, settings and files.

Every text is short and stays the same while nothing changes, so that two surveys can be compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from operator_protocols.domain.target import Process, Target
from operator_protocols.kit.changes import hide_secret
from operator_protocols.kit.machine import data_dir_of, is_running
from operator_protocols.kit.units import format_bytes

__all__ = ["Surroundings", "settings_in"]

CONFIG_SUFFIXES = (".conf", ".cnf", ".ini", ".json", ".properties", ".toml", ".yaml", ".yml")
CONFIG_BYTES_MAX = 256 * 1024
SETTINGS_MAX = 400
FILES_MAX, DEPTH_MAX = 1_500, 3
ARGUMENTS_MAX = 60
BESIDE_MAX = 30
PORTS_EVERY = 20  # surveys after which a process without ports is asked again
# What servers make and remove all the time.
_PASSING = re.compile(
    r"\.(pid|lock|sock|log|tmp|new|swp|opts|init)\b|cache|temp|tmp|^\.s\.|^core\b|\.log$", re.I
)
_LINE = re.compile(r"^\s*([A-Za-z_][\w.-]*)\s*(?:[=:]\s*|\s+)(\S.*?)\s*$")
_LIMITS = re.compile(
    r"^Max (open files|processes|file size|address space|resident set|locked memory)\s+(\S+)", re.M
)
_DIGITS = re.compile(r"[0-9A-Fa-f]*\d[0-9A-Fa-f]*")
_COUNTER = re.compile(r"[0-9A-Fa-f]{8}")  # in the name of a segment
_LISTENS = "0A"


@dataclass(slots=True)
class _File:
    """A file as last seen: its mark, which differs when its text does, and its largest size."""

    mark: tuple[int, ...] = ()
    text: str = ""
    most: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """The files of one target by their path below a folder with this device and inode."""

    root: tuple[int, int]
    files: dict[str, _File]
    configs: tuple[str, ...]


class Surroundings:
    """Surveys targets on this machine. It keeps which files it has seen, and nothing else."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._configs: dict[str, tuple[Path, ...]] = {}
        self._parsed: dict[Path, tuple[tuple[int, ...], dict[str, str]]] = {}
        self._listening: dict[str, tuple[Process, str, int]] = {}

    def survey(self, target: Target) -> dict[str, dict[str, str]]:
        """States by source: its process, its settings, its files. Never raises.

        A source that cannot be read is missing. The process of a stopped target has no state.
        """
        if target.runs_at:
            return {}
        found: dict[str, dict[str, str]] = {}
        running = target.process is not None and is_running(target.process)
        if running and target.process is not None:
            with contextlib.suppress(OSError, ValueError):
                found["process"] = _read_process(target.process)
                if ports := self._read_ports(target.name, target.process):
                    found["process"]["listens on"] = ports
            with contextlib.suppress(OSError, ValueError):
                self._configs[target.name] = tuple(_list_named_files(target.process))
        named = (*self._configs.get(target.name, ()), *_list_files_beside(target))
        place = data_dir_of(target) if target.data_dir else None
        with contextlib.suppress(OSError, ValueError):
            files = self._survey_files(target.name, place, named, running=running)
            if files is not None:
                found["files"] = files
        configs = dict.fromkeys(named)
        if place is not None and (known := self._known.get(target.name)) is not None:
            configs |= dict.fromkeys(place / name for name in known.configs)
        settings = self._read_settings(
            path for path in configs if path.suffix.lower() in CONFIG_SUFFIXES
        )
        if settings is not None:
            found["settings"] = settings
        return found

    def _survey_files(
        self, target: str, place: Path | None, named: Iterable[Path], *, running: bool
    ) -> dict[str, str] | None:
        """The owner, mode and kind of every file; None where they cannot be compared."""
        states = {path.name: _survey_file(str(path), _File()) or "removed" for path in named}
        if place is None:
            return states or None
        try:
            here = place.stat()
        except FileNotFoundError:
            return None
        root = here.st_dev, here.st_ino
        known = self._known.get(target)
        if known is None or (known.root != root and running):
            files = {name: _File() for name in _list_files(place)}
            configs = tuple(name for name in files if name.lower().endswith(CONFIG_SUFFIXES))
            known = self._known[target] = _Known(root, files, configs)
        elif known.root != root:
            return None  # its volume is mounted only while it runs
        gone = []
        for name, file in known.files.items():
            states[name] = text = _survey_file(f"{place}/{name}", file)
            if not text:
                gone.append(name)
        for name in gone:
            states[name] = "removed"
            if _is_replaced(place, name, known.files):
                del states[name], known.files[name]
        return states

    def _read_ports(self, name: str, process: Process) -> str:
        """The ports on which a process listens: read when it is new, and now and then without."""
        known, ports, surveys = self._listening.get(name, (None, "", 0))
        if known != process or (not ports and surveys % PORTS_EVERY == 0):
            surveys = 0
            found = sorted(_list_ports(Path(f"/proc/{process.pid}")))
            ports = ", ".join(map(str, found))
        self._listening[name] = process, ports, surveys + 1
        return ports

    def _read_settings(self, paths: Iterable[Path]) -> dict[str, str] | None:
        """Every setting of these files, by its name and its file; None when none can be read."""
        found: dict[str, str] = {}
        read = 0
        for path in paths:
            try:
                status = path.stat()
                if not stat.S_ISREG(status.st_mode) or status.st_size > CONFIG_BYTES_MAX:
                    continue
                mark = (status.st_mtime_ns, status.st_size, status.st_ino)
                known, settings = self._parsed.get(path, ((), {}))
                if known != mark:
                    text = path.read_text(encoding="utf-8", errors="replace")
                    # Of what cannot be read any more, the settings are not gone one by one.
                    content = f"content of {path.name}"
                    try:
                        settings = settings_in(text, path.name)
                    except ValueError as problem:
                        settings = {**settings, content: f"not valid: {problem}"}
                    self._parsed[path] = mark, settings
            except OSError:
                settings = self._parsed.get(path, ((), {}))[1]
            if settings:
                found |= settings
                read += 1
        return found if read else None


def settings_in(text: str, file: str) -> dict[str, str]:
    """The settings of a text in one of the usual forms, secrets hidden; repeated ones numbered.

    ValueError when it looks like JSON and is not.
    """
    found: dict[str, str] = {}
    if text.lstrip()[:1] in ("{", "[") and file.endswith(".json"):
        pairs = list(_flatten(json.loads(text), ""))[:SETTINGS_MAX]
        return {f"{name} in {file}": hide_secret(name, value) for name, value in pairs}
    if not text.strip():
        raise ValueError("it is empty")
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or len(found) >= SETTINGS_MAX:
            continue
        name, value = match[1], match[2].partition(" #")[0].strip().strip("\"',")
        key, count = f"{name} in {file}", 2
        while key in found:
            key, count = f"{name} ({count}) in {file}", count + 1
        found[key] = hide_secret(name, value)
    return found


def _flatten(document: object, name: str) -> Iterator[tuple[str, str]]:
    """Every value of a document, by the names that lead to it."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _flatten(value, f"{name}.{key}" if name else str(key))
    elif isinstance(document, list) and any(isinstance(each, dict) for each in document):
        for at, value in enumerate(document):
            yield from _flatten(value, f"{name}[{at}]")
    else:
        yield name, document if isinstance(document, str) else json.dumps(document)


def _read_process(process: Process) -> dict[str, str]:
    place = Path(f"/proc/{process.pid}")
    state = {
        f"limit of {name}": most for name, most in _LIMITS.findall((place / "limits").read_text())
    }
    state["user"] = _name_user(place.stat().st_uid)
    words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")[:ARGUMENTS_MAX]
    hidden = []
    for before, word in pairwise(words):
        name, equals, value = word.partition("=")
        shown = f"{name}={hide_secret(name, value)}" if equals else word
        is_value = before.startswith("-") and not word.startswith("-")
        hidden.append(hide_secret(before, word) if is_value else shown)
    state["arguments"] = " ".join(filter(None, hidden))
    return state


def _list_ports(place: Path) -> set[int]:
    """The TCP ports on which a process listens."""
    sockets = set()
    for entry in os.scandir(place / "fd"):
        with contextlib.suppress(OSError):
            link = str(Path(entry.path).readlink())
            if link.startswith("socket:["):
                sockets.add(link[8:-1])
    ports = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), (place / "net" / name).open() as rows:
            for row in rows:
                words = row.split()
                if len(words) > 9 and words[3] == _LISTENS and words[9] in sockets:
                    ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def _list_named_files(process: Process) -> Iterator[Path]:
    """The files that its command line names: configuration, passwords, certificates."""
    place = Path(f"/proc/{process.pid}")
    words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")[1:ARGUMENTS_MAX]
    folder = (place / "cwd").readlink()
    for word in words:
        path = folder / (word.rpartition("=")[2] if word.startswith("-") else word)
        with contextlib.suppress(OSError, ValueError):
            if path.is_file() and not _PASSING.search(path.name):
                yield path


def _list_files_beside(target: Target) -> list[Path]:
    """The configuration in the folder above the data, where that folder belongs to the target."""
    place = Path(target.data_dir).parent
    is_own = place.name == target.name or Path(target.log or "/").parent == place
    if not target.data_dir or not is_own:
        return []
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:
        return []
    files = [Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False)]
    return [file for file in files if not _PASSING.search(file.name)][:BESIDE_MAX]


def _list_files(place: Path) -> Iterator[str]:
    """Files and folders below a folder, the upper ones first, without what comes and goes."""
    folders, count = [place], 0
    for _ in range(DEPTH_MAX):
        below: list[Path] = []
        for folder in folders:
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if _PASSING.search(entry.name) or count >= FILES_MAX:
                    continue
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    below.append(path)
                count += 1
                yield str(path.relative_to(place))
        folders = below


def _survey_file(path: str, file: _File) -> str:
    """The owner and mode of a file, and whether it is empty or was cut; "" when it is gone."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ""
    except OSError as problem:
        return f"not readable ({problem.strerror})"
    size = status.st_size if stat.S_ISREG(status.st_mode) else -1
    file.most = max(file.most, size)
    is_cut = 0 <= size < file.most
    mark = status.st_uid, status.st_mode, size == 0, is_cut
    if mark != file.mark:
        text = f"owner {_name_user(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o}"
        if size == 0:
            text += ", empty"
        elif is_cut:
            text += f", cut from {format_bytes(file.most)} to {format_bytes(size)}"
        file.mark, file.text = mark, text
    return file.text


def _is_replaced(place: Path, name: str, known: Mapping[str, object]) -> bool:
    """Whether a file of the same kind came in its place, as segments of a log follow each other.

    Servers also remove the oldest segment without a new one, after a checkpoint.
    """
    folder, _, own = name.rpartition("/")
    shape = _DIGITS.sub("#", own)
    if shape == own:
        return False
    try:
        names = [entry.name for entry in os.scandir(place / folder)]
    except OSError:
        return False
    below = f"{folder}/" if folder else ""
    alike = [other for other in names if _DIGITS.sub("#", other) == shape]
    others = [other for other in alike if len(other) == len(own)]
    was_oldest = bool(others and _COUNTER.search(own)) and own < min(others)
    return was_oldest or any(f"{below}{other}" not in known for other in alike)


@cache
def _name_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

"""Programs of our own that run beside a rig, under a supervisor that ends with us."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from operator_lab.stacks.target import engine_variables
from operator_protocols.errors import RigError
from operator_sre.config import Config
from operator_sre.processes.control import Control, Launched, base_environment, launch, reap
from operator_sre.processes.identity import alive
from operator_sre.processes.supervision import ChildState, Supervised, read_state, write_orders

__all__ = ["Crew", "Tail", "crew_files"]

# Between asking a program to end and ending it.
GRACE_S = 5.0
HELD_S_MAX = 5.0
READ_BYTES_MAX = 64 << 10
# Who writes more than that between two looks is not read word by word.
BEHIND_BYTES_MAX = 1 << 20
LINE_BYTES_MAX = 8 << 10
_CUT = b" ..."


class Tail:
    """The lines of a file as they come; a line without an end is cut, not waited for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._open = b""
        self._skips = False

    def lines(self) -> list[str]:
        """What was written since, without what cannot be read as text."""
        found: list[str] = []
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size - self._offset > BEHIND_BYTES_MAX:
                    self._offset, self._skips, self._open = size - READ_BYTES_MAX, True, b""
                file.seek(self._offset)
                text_read = file.read(READ_BYTES_MAX)
        except FileNotFoundError:
            return []
        self._offset += len(text_read)
        for part in text_read.splitlines(keepends=True):
            self._open += part
            ends = self._open.endswith((b"\n", b"\r"))
            too_long = len(self._open) > LINE_BYTES_MAX
            if (ends or too_long) and not self._skips:
                text = self._open[:LINE_BYTES_MAX] + (_CUT if too_long else b"")
                found.append(text.decode(errors="replace").rstrip("\r\n"))
            if ends or too_long:
                # The rest of a line that was cut is nobody's beginning.
                self._skips, self._open = not ends, b""
        return found


class Crew:
    """Several programs by name. What they say goes into files of their directory."""

    def __init__(self, directory: Path, names: Sequence[str], launched: Launched) -> None:
        self._directory = directory
        self._launched = launched
        self._tails = {name: Tail(_log(directory, name)) for name in names}

    @classmethod
    async def up(
        cls,
        directory: Path,
        programs: Mapping[str, Sequence[str]],
        *,
        env: Mapping[str, str],
        inherits: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
    ) -> Crew:
        """Start them all; they die with this process, however that ends.

        `files` are what they find where they are started: name -> text.
        """
        _make(directory, files or {})
        # Where they look after containers, they have to find the same engine as we do.
        found = {**base_environment(os.environ), **engine_variables(os.environ)}
        surroundings = {**found, "PYTHONUNBUFFERED": "1", **env}
        orders = [
            Supervised(
                name=name,
                argv=tuple(argv),
                # Whatever lies where we were started has no part in it.
                cwd=str(directory),
                log=str(_log(directory, name)),
                env=surroundings,
                inherits=tuple(inherits),
            )
            for name, argv in programs.items()
        ]
        launched: Launched | None = None
        try:
            write_orders(directory, orders, grace_s=GRACE_S)
            launched = await launch(directory, owned=True, passing=inherits)
        finally:
            if launched is None:
                await asyncio.shield(_end(directory))
        return cls(directory, tuple(programs), launched)

    def lines(self, name: str) -> list[str]:
        """The output of one of them since the last call."""
        return self._tails[name].lines()

    def exits(self) -> dict[str, int]:
        """Who has ended by itself, and with which code."""
        state = read_state(self._directory)
        children = () if state is None else state.children
        ended = [child for child in children if child.state is ChildState.EXITED]
        return {child.name: child.exit_code or 0 for child in ended}

    def pids(self) -> dict[str, int]:
        """The process of each that was started."""
        state = read_state(self._directory)
        children = () if state is None else state.children
        return {child.name: child.process.pid for child in children if child.process}

    async def down(self) -> None:
        """End all of them, politely first; also twice."""
        await _end(self._directory)
        await self._launched.wait_until_gone(HELD_S_MAX)


def _make(directory: Path, files: Mapping[str, str]) -> None:
    """Readable to the owner only, because the output of programs may hold secrets."""
    directory.mkdir(mode=0o700, parents=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")


def _log(directory: Path, name: str) -> Path:
    return directory / f"{name}.log"


async def _end(directory: Path) -> None:
    state = read_state(directory)
    if state is not None:
        if alive(state.supervisor):
            with contextlib.suppress(RigError):
                await Control(directory).down()
        await reap(directory)
    shutil.rmtree(directory, ignore_errors=True)


def crew_files(config: Config) -> dict[str, str]:
    """What they find where they are started.

    Also an operator.toml without a word in it: it keeps them from finding that of the viewer.
    """
    lines = []
    if config.file is not None:
        described = tomllib.loads(config.file.read_text(encoding="utf-8")).get("models", {})
        for name, table in described.items():
            lines.append(f"[models.{json.dumps(name)}]")
            for key, value in table.items():
                text = str(config.file.parent / value) if key == "key_file" else value
                lines.append(f"{json.dumps(key)} = {_value(text)}")
    return {"operator.toml": "".join(f"{line}\n" for line in lines)}


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = [f"{json.dumps(key)} = {_value(item)}" for key, item in value.items()]
        return f"{{{', '.join(inside)}}}"
    return json.dumps(value)

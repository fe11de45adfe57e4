"""Boxes for tests: each in a folder of its own, which must be empty afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest

from operator_protocols.domain.action import Result
from operator_protocols.ports import Job
from operator_sre.executor.containers import LABEL
from operator_sre.executor.docker import Address, Engine
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.sandbox import Language, Limits, Sandbox, Script
from operator_sre.executor.sandbox.bubblewrap import Bubblewrap, bwrap
from operator_sre.executor.sandbox.cgroup import PREFIX, Cgroup, Cgroups
from operator_sre.executor.sandbox.docker import DockerBox
from operator_sre.executor.sandbox.place import copy_for_all, reachable
from operator_sre.processes.identity import rows
from tests.engines.dockerd import Engine as DockerEngine
from tests.engines.dockerd import EngineError
from tests.executor.jobs import new_job
from tests.executor.sandbox.images import IMAGE, scripts_engine
from tests.processes.waiting import eventually

__all__ = [
    "AsNobody",
    "Boxed",
    "InDocker",
    "NoCgroups",
    "NotedCgroups",
    "bubblewrap",
    "docker",
    "of_plain_user",
    "running",
]


class NotedCgroups(Cgroups):
    """Real ones, whose names are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Cgroup] = []

    def make(self, name: str, limits: Limits) -> Cgroup | None:
        """As ever."""
        group = super().make(name, limits)
        if group is not None:
            self.made.append(group)
        return group

    @property
    def left(self) -> list[Path]:
        """Those that are still there."""
        return [folder for group in self.made for folder in group.folders if folder.exists()]


class NoCgroups(NotedCgroups):
    """A machine on which none can be made."""

    def make(self, name: str, limits: Limits) -> Cgroup | None:
        """None, ever."""
        return None


@dataclass(frozen=True, slots=True)
class Boxed:
    """A sandbox with what it may leave behind."""

    sandbox: Sandbox
    folder: Path
    cgroups: NotedCgroups = field(default_factory=NotedCgroups)

    async def run(
        self,
        language: Language,
        text: str,
        *,
        inputs: dict[str, bytes] | None = None,
        hosts: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> Result:
        """Run one script."""
        script = Script(language, text, inputs or {}, hosts)
        return await self.sandbox.run(script, limits or Limits(timeout_s=30), new_job())

    def left(self) -> list[Path]:
        """What was left behind in files and groups."""
        return [*self.folder.iterdir(), *self.cgroups.left]


class AsNobody(Programs):
    """Starts everything as a plain user, as an operator does whom a plain user runs."""

    async def run(self, program: Program, job: Job) -> Result:
        """As ever, by another user."""
        words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *program.argv)
        return await super().run(replace(program, argv=words), job)


@contextmanager
def bubblewrap(state: Path, *, cgroups: NotedCgroups | None = None) -> Iterator[Boxed]:
    """The default one. Its user has to reach the folder, so that lies not below the test's own."""
    folder = Path(tempfile.mkdtemp(prefix="operator-test-"))
    folder.chmod(0o711)
    groups = cgroups or NotedCgroups()
    programs = Programs(Spool(state / "spool"))
    try:
        yield Boxed(Bubblewrap(programs, folder=folder, cgroups=groups), folder, groups)
    finally:
        shutil.rmtree(folder)


@contextmanager
def of_plain_user(state: Path) -> Iterator[Boxed]:
    """The one that a plain user gets, also where root runs the tests."""
    make = Path.mkdir

    def given(folder: Path, *words: Any, **named: Any) -> None:
        make(folder, *words, **named)
        if folder.name.startswith(PREFIX):
            os.chown(folder, 65534, 65534)

    if os.geteuid() != 0:
        with bubblewrap(state, cgroups=NoCgroups()) as boxed:
            yield boxed
        return
    with bubblewrap(state) as boxed, tempfile.TemporaryDirectory(prefix="operator-test-") as copies:
        Path(copies).chmod(0o755)
        program = Path(bwrap())
        if not reachable(program):
            program = copy_for_all(program, Path(copies) / "program")
        with mock.patch.object(os, "geteuid", return_value=65534):
            sandbox = Bubblewrap(
                AsNobody(Spool(state / "spool")),
                program=str(program),
                folder=boxed.folder,
                cgroups=NoCgroups(),
            )
        with mock.patch.object(Path, "mkdir", given):
            yield replace(boxed, sandbox=sandbox)


def running(mark: str) -> list[int]:
    """Every process of this machine that was started with this word."""
    found = []
    for pid in rows():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in words:
            found.append(pid)
    return found


@dataclass(frozen=True, slots=True)
class InDocker(Boxed):
    """A sandbox of containers, with the engine that has them."""

    engine: DockerEngine = field(kw_only=True)
    client: Engine = field(kw_only=True)
    home: str = field(kw_only=True)

    def named(self) -> list[str]:
        """The containers of this home."""
        chosen = quote(json.dumps({"label": [f"{LABEL}={self.home}"]}))
        found = self.engine.ask("GET", f"/containers/json?all=true&filters={chosen}")
        return [one["Id"] for one in found]

    async def containers(self) -> list[str]:
        """Those of this home, as soon as one of them runs."""
        await eventually(lambda: any(map(self._runs, self.named())))
        return self.named()

    def _runs(self, container: str) -> bool:
        # An engine lists one that is being made or removed before or after it tells of it.
        with contextlib.suppress(EngineError):
            return self.engine.is_running(container)
        return False

    def left(self) -> list[Path]:
        """What was left behind in files and containers."""
        return [*self.folder.iterdir(), *map(Path, self.named())]


@contextmanager
def docker(state: Path, config: pytest.Config) -> Iterator[InDocker]:
    """That of containers; skips where no engine answers."""
    engine = scripts_engine(config)
    home = f"test-{secrets.token_hex(8)}"
    client = Engine(Address(socket=engine.socket))
    folder = Path(tempfile.mkdtemp(prefix="operator-test-"))
    images = dict.fromkeys(Language, IMAGE)
    box = DockerBox(client, home=home, images=images, folder=folder)
    try:
        yield InDocker(box, folder, engine=engine, client=client, home=home)
    finally:
        shutil.rmtree(folder)

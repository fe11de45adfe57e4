"""What faults do to a rig of PostgreSQL: as its owner, by its application, in its files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.ports import Scene
from operator_sre.subjects.postgres.client import STATE_FILE, WORK_FILE
from operator_sre.subjects.postgres.login import Login, home_of, password_in
from operator_sre.subjects.postgres.rig import (
    BILLING,
    CONFIG_FILE,
    OWNER_FILE,
    RENEW_FILE,
    REPLICA,
    SUPERUSER,
)
from operator_sre.subjects.postgres.session import RefusedError, Session, driver, opened

__all__ = [
    "answer",
    "append_setting",
    "has_setting",
    "leave",
    "owner_of",
    "password_of",
    "remove_setting",
    "renew",
    "work",
]

OWNER_S_MAX = 20.0
WORK_S_MAX = 15.0
POLL_S = 0.05

Sessions = Sequence[Mapping[str, object]]


@contextlib.asynccontextmanager
async def owner_of(target: Target) -> AsyncIterator[Session]:
    """A session of the superuser; RigError when the server cannot be reached."""
    login = Login(SUPERUSER, password_of(target, SUPERUSER))
    try:
        async with opened(target, login, timeout_s=OWNER_S_MAX, read_only=False) as session:
            yield session
    except RefusedError as refused:
        raise RigError(f"{target.name} cannot be asked: {refused.sentence}.") from None
    except (driver().Error, TimeoutError) as error:
        why = " ".join(str(error).split()) or "it does not answer in time"
        raise RigError(f"{target.name} does not do it: {why}.") from None


async def answer(target: Target, sql: str) -> Any:
    """What a server answers to its owner; None when it cannot be asked."""
    try:
        async with owner_of(target) as session:
            return await session.ask(sql)
    except RigError:
        return None


def password_of(target: Target, user: str) -> str:
    """The password of a role that looks after a server of a rig."""
    return password_in((_home(target, OWNER_FILE) / OWNER_FILE).read_text(encoding="utf-8"), user)


async def work(scene: Scene, job: str, sessions: Sessions) -> None:
    """Let the application open these sessions, and wait until it has."""
    home = _home(scene.of(BILLING), "servers.json")
    _order(home, {**_ordered(home), job: list(sessions)})
    await _until(home, lambda done: job in done)


async def leave(scene: Scene, job: str) -> None:
    """Let the application close the sessions of a job, if need be by starting it anew."""
    home = _home(scene.of(BILLING), "servers.json")
    _order(home, {name: one for name, one in _ordered(home).items() if name != job})
    try:
        await _until(home, lambda done: job not in done)
    except RigError:
        await scene.rig.restart(BILLING)


async def _until(home: Path, holds: Callable[[list[str]], bool]) -> None:
    ends = time.monotonic() + WORK_S_MAX
    while not holds(_done(home)):
        if time.monotonic() > ends:
            raise RigError(f"{BILLING} does not do what it was told.", next_step="Is it running?")
        await asyncio.sleep(POLL_S)


def _order(home: Path, jobs: Mapping[str, object]) -> None:
    draft = home / f".{WORK_FILE}"
    draft.write_text(json.dumps(jobs), encoding="utf-8")
    draft.replace(home / WORK_FILE)


def _ordered(home: Path) -> dict[str, object]:
    found = _json(home / WORK_FILE)
    return found if isinstance(found, dict) else {}


def _done(home: Path) -> list[str]:
    found = _json(home / STATE_FILE)
    return found if isinstance(found, list) else []


def append_setting(target: Target, line: str) -> None:
    """Write a line at the end of a server's file of settings."""
    with _config(target).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def has_setting(target: Target, line: str) -> bool:
    """Whether the line is in the file."""
    return line in _config(target).read_text(encoding="utf-8").splitlines()


def remove_setting(target: Target, line: str) -> None:
    """Take a line out of the file again; whose file it is does not change."""
    file = _config(target)
    kept = [one for one in file.read_text(encoding="utf-8").splitlines() if one != line]
    file.write_text("".join(f"{one}\n" for one in kept), encoding="utf-8")


async def renew(scene: Scene) -> None:
    """Make the replica anew from the primary."""
    replica = scene.of(REPLICA)
    (_home(replica, OWNER_FILE) / RENEW_FILE).touch()
    await scene.rig.restart(REPLICA)


def _config(target: Target) -> Path:
    return _home(target, CONFIG_FILE) / CONFIG_FILE


def _home(target: Target, file: str) -> Path:
    found = home_of(target, file)
    if found is None:
        raise RigError(f"{target.name} has no directory in which {file!r} lies.")
    return found


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

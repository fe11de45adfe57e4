"""What faults do to a rig of PostgreSQL: as its owner, by its application, in its files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.kit.machine import replace_text
from operator_protocols.ports import Scene
from operator_sre.subjects.postgres.client import STATE_FILE, WORK_FILE
from operator_sre.subjects.postgres.rig import (
    BILLING,
    CONFIG_FILE,
    OWNER_FILE,
    RENEW_FILE,
    REPLICA,
    SUPERUSER,
)
from operator_sre.subjects.postgres.session import (
    Login,
    RefusedError,
    Session,
    driver,
    home_of,
    open_session,
    password_in,
)

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
T = TypeVar("T", dict[str, Any], list[str])


@contextlib.asynccontextmanager
async def owner_of(target: Target) -> AsyncIterator[Session]:
    """A session of the superuser; RigError when the server cannot be reached."""
    login = Login(SUPERUSER, password_of(target, SUPERUSER))
    try:
        async with open_session(target, login, timeout_s=OWNER_S_MAX, read_only=False) as session:
            yield session
    except RefusedError as refused:
        raise RigError(f"{target.name} cannot be asked: {refused.sentence}.") from None
    except (driver().Error, TimeoutError) as error:
        why = " ".join(str(error).split()) or "it did not answer in time"
        raise RigError(f"{target.name} refused: {why}.") from None


async def answer(target: Target, sql: str) -> Any:
    """What a server answers to its owner; None when it cannot be asked."""
    try:
        async with owner_of(target) as session:
            return await session.ask(sql)
    except RigError:
        return None


def password_of(target: Target, user: str) -> str:
    """The password of a role that administers a server of a rig."""
    return password_in((_home(target, OWNER_FILE) / OWNER_FILE).read_text(encoding="utf-8"), user)


async def work(scene: Scene, job: str, sessions: Sessions) -> None:
    """Let the application open these sessions, and wait until it has."""
    await _order(_home(scene.of(BILLING), "servers.json"), job, sessions)


async def leave(scene: Scene, job: str) -> None:
    """Let the application close the sessions of a job, if need be by restarting it."""
    home = _home(scene.of(BILLING), "servers.json")
    try:
        await _order(home, job, ())
    except RigError:
        await scene.rig.restart(BILLING)


async def _order(home: Path, job: str, sessions: Sessions) -> None:
    """Write down what the application has to do, and wait until it does; without any, no more."""
    jobs = {
        name: sessions for name, sessions in _read_json(home / WORK_FILE, {}).items() if name != job
    }
    if sessions:
        jobs[job] = list(sessions)
    replace_text(home / WORK_FILE, json.dumps(jobs))
    ends = time.monotonic() + WORK_S_MAX
    while (job in _read_json(home / STATE_FILE, [])) is not bool(sessions):
        if time.monotonic() > ends:
            raise RigError(f"{BILLING} does not follow its orders.", next_step="Is it running?")
        await asyncio.sleep(POLL_S)


def _read_json(file: Path, empty: T) -> T:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return empty
    return found if isinstance(found, type(empty)) else empty


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
    kept = [text for text in file.read_text(encoding="utf-8").splitlines() if text != line]
    file.write_text("".join(f"{text}\n" for text in kept), encoding="utf-8")


async def renew(scene: Scene) -> None:
    """Rebuild the replica from the primary."""
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

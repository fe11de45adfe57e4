"""The directories of a rig: claimed, made, filled with files, given to who needs them, removed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pwd
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from operator_lab.manifest import (
    LINKS,
    LOAD,
    MANIFEST_FILE,
    Layout,
    Manifest,
    has_volume,
    own_home,
    read_manifest,
    write_manifest,
)
from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import RigError
from operator_sre.processes.identity import process_of

__all__ = [
    "User",
    "alone_in",
    "choose_homes",
    "clear",
    "make_places",
    "take",
    "unprivileged_user",
]

LOCK_S_MAX = 5.0
POLL_S = 0.01


def take(spec: RigSpec, directory: Path) -> bool:
    """Write our manifest into an unused directory; True when a dead rig lies there."""
    me = process_of(os.getpid())
    if me is None:
        raise RigError("The lab cannot see its own process.")
    before = read_manifest(directory)
    if before is not None and before.live:
        raise RigError(
            f"A rig of {before.spec.subject!r} is up already in {str(directory)!r}.",
            next_step="Use it, or end it with: operator lab down",
        )
    directory.mkdir(mode=0o700, exist_ok=True)
    # A draft is a manifest whose writer was killed.
    draft = f".{MANIFEST_FILE}."
    if before is None and not all(each.name.startswith(draft) for each in directory.iterdir()):
        raise RigError(
            f"{str(directory)!r} is not empty and is not a rig.",
            next_step="Choose another directory; nothing was touched.",
        )
    # What a dead rig has elsewhere must not be forgotten before it is removed.
    homes = {} if before is None else before.homes
    write_manifest(directory, Manifest(spec, datetime.now(UTC), me, homes=homes))
    return before is not None


@contextlib.asynccontextmanager
async def alone_in(directory: Path) -> AsyncIterator[None]:
    """Be alone in a directory for a moment, without leaving a file there."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    ends = time.monotonic() + LOCK_S_MAX
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise RigError(f"Another process has locked {str(directory)!r}.") from None
            await asyncio.sleep(POLL_S)
        yield
    finally:
        os.close(handle)


HOME_PREFIX = "operator-home-"
NOBODY = "nobody"
FAR_FOLDER = "/tmp"  # noqa: S108  the folder made in it is random and private


@dataclass(frozen=True, slots=True)
class User:
    """A user other than root."""

    name: str
    uid: int
    gid: int

    @property
    def env(self) -> dict[str, str]:
        """Who a process of this user thinks it is."""
        return {"USER": self.name, "LOGNAME": self.name}


def unprivileged_user() -> User | None:
    """The user for processes that must not run as root; None when we are not root ourselves."""
    if os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(NOBODY)
    except KeyError:
        raise RigError(
            f"There is no user {NOBODY!r} on this machine, and this rig must not run as root.",
            next_step="Start it as another user.",
        ) from None
    return User(found.pw_name, found.pw_uid, found.pw_gid)


def choose_homes(spec: RigSpec, user: User | None) -> dict[str, str]:
    """Where those live who may not enter the directory of the rig; nothing is made yet."""
    if user is None:
        return {}
    folder = Path(tempfile.gettempdir())
    way = (folder.absolute(), *folder.absolute().parents)
    is_open = all(each.stat().st_mode & stat.S_IXOTH for each in way)
    usual = folder if is_open else Path(FAR_FOLDER)
    return {
        process.name: str(usual / f"{HOME_PREFIX}{secrets.token_hex(8)}")
        for process in spec.processes
        if process.unprivileged
    }


def make_places(layout: Layout, user: User | None) -> None:
    """Make the directories of all processes and write their files."""
    spec = layout.manifest.spec
    for process in spec.processes:
        home = layout.home(process.name)
        home.mkdir(mode=0o700)
        for path, text in process.files.items():
            file = home / path
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
            file.write_text(layout.fill(process, text), encoding="utf-8")
        if has_volume(process):
            layout.volume(process.name).mkdir(mode=0o700, exist_ok=True)
        if process.unprivileged and user is not None:
            os.chown(home, user.uid, user.gid)
            for folder, folders, files in os.walk(home):
                for name in (*folders, *files):
                    os.chown(Path(folder) / name, user.uid, user.gid, follow_symlinks=False)
    (own_home(layout.directory, LINKS) / "empty").mkdir(mode=0o700, parents=True)
    if spec.load is not None:
        own_home(layout.directory, LOAD).mkdir(mode=0o700)


def clear(directory: Path, homes: Mapping[str, str]) -> None:
    """Remove everything of a rig but its manifest; RigError when something stays."""
    entries = (each for each in directory.iterdir() if each.name != MANIFEST_FILE)
    places = [*map(Path, homes.values()), *entries]
    for place in places:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                place.unlink()
        if place.exists():
            raise OSError(f"{str(place)!r} cannot be removed")

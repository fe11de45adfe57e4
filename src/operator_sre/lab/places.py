"""The directories of a rig: made, filled with files, given to who needs them, and removed."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import RigError
from operator_sre.lab.layout import LINKS, LOAD, Layout, has_volume, own_home
from operator_sre.lab.manifest import MANIFEST_FILE

__all__ = ["User", "choose_homes", "clear", "make_places", "unprivileged_user"]

HOME_PREFIX = "operator-home-"
NOBODY = "nobody"
FAR_FOLDER = "/tmp"  # noqa: S108  the folder made in it is random and private


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who is not root."""

    name: str
    uid: int
    gid: int

    @property
    def env(self) -> dict[str, str]:
        """Who a process of this user thinks it is."""
        return {"USER": self.name, "LOGNAME": self.name}


def unprivileged_user() -> User | None:
    """Who runs what must not run as root; None when we are somebody ourselves."""
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
    usual = folder if _open_to_all(folder) else Path(FAR_FOLDER)
    return {
        each.name: str(usual / f"{HOME_PREFIX}{secrets.token_hex(8)}")
        for each in spec.processes
        if each.unprivileged
    }


def _open_to_all(folder: Path) -> bool:
    """Everybody can get there."""
    place = folder.absolute()
    return all(each.stat().st_mode & stat.S_IXOTH for each in (place, *place.parents))


def make_places(layout: Layout, user: User | None) -> None:
    """Make the directories of all processes and write their files."""
    spec = layout.manifest.spec
    for process in spec.processes:
        home = layout.home(process.name)
        home.mkdir(mode=0o700)
        for path, text in process.files.items():
            _write(home, path, layout.fill(process, text))
        if has_volume(process):
            layout.volume(process.name).mkdir(mode=0o700, exist_ok=True)
        if process.unprivileged and user is not None:
            _give(home, user)
    (own_home(layout.directory, LINKS) / "empty").mkdir(mode=0o700, parents=True)
    if spec.load is not None:
        own_home(layout.directory, LOAD).mkdir(mode=0o700)


def _write(home: Path, path: str, text: str) -> None:
    file = home / path
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def _give(home: Path, user: User) -> None:
    os.chown(home, user.uid, user.gid)
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            os.chown(Path(folder) / name, user.uid, user.gid, follow_symlinks=False)


def clear(directory: Path, homes: Mapping[str, str]) -> None:
    """Remove everything of a rig but its manifest; RigError when something stays."""
    entries = (each for each in directory.iterdir() if each.name != MANIFEST_FILE)
    _remove([*map(Path, homes.values()), *entries])


def _remove(places: Iterable[Path]) -> None:
    for place in places:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                place.unlink()
        if place.exists():
            raise OSError(f"{str(place)!r} cannot be removed")

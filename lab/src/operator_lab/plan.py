"""From a RigSpec to the orders of its supervisor: checked, with its ports and directories."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pwd
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

from operator_lab.manifest import (
    HOST,
    LINKS,
    LOAD,
    MANIFEST_FILE,
    Layout,
    Manifest,
    has_volume,
    nonsense,
    own_home,
    port_keys,
    read_manifest,
    write_manifest,
)
from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.errors import RigError
from operator_sre.processes.identity import process_of
from operator_sre.processes.supervision import Supervised

__all__ = [
    "LINKS_CONFIG_FILE",
    "User",
    "alone_in",
    "aside",
    "check_spec",
    "choose_homes",
    "clear",
    "make_places",
    "plan",
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
            f"A rig of {before.spec.subject!r} is already up in {str(directory)!r}.",
            next_step="Use it, or stop it with: operator lab down",
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


LINKS_CONFIG_FILE = "config.json"
LOAD_CONFIG_FILE = "config.json"
VOLUME_MB_MAX = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_RESERVED = frozenset({LOAD, LINKS, "control"})
_ASIDE = "-aside"


def check_spec(spec: RigSpec) -> None:
    """RigError with the first thing that makes no sense, before anything is started."""
    names = [process.name for process in spec.processes]
    for process in spec.processes:
        if why := _nonsense_of(process, names):
            raise nonsense(spec, why)
    try:
        TopologicalSorter(
            {process.name: process.depends_on for process in spec.processes}
        ).prepare()
    except CycleError as problem:
        circle = " needs ".join(problem.args[1])
        raise nonsense(spec, f"its processes wait for each other: {circle}") from None


def _nonsense_of(process: ProcessSpec, names: list[str]) -> str:
    name = process.name
    if not _NAME.fullmatch(name) or name in _RESERVED or name.endswith(_ASIDE):
        return f"{name!r} cannot be the name of a process"
    if names.count(name) > 1:
        return f"{name!r} is the name of two processes"
    if not process.argv or not all((*process.prepare, *process.cleanup)):
        return f"{name!r} has no command"
    for need in process.depends_on:
        if need not in names:
            return f"{name!r} needs {need!r}, which is not in it"
    for port in process.ports:
        if not _NAME.fullmatch(port) or process.ports.count(port) > 1:
            return f"{port!r} cannot be the name of a port of {name!r}"
    for path in process.files:
        parts = PurePosixPath(path).parts
        absolute = path.startswith(("/", "~"))
        if not (bool(parts) and not absolute and ".." not in parts and "\0" not in path):
            return f"{path!r} is not the path of a file below the directory of {name!r}"
    if not 0 <= process.volume_mb <= VOLUME_MB_MAX:
        return f"{name!r} cannot have a volume of {process.volume_mb} MB"
    return ""


def plan(layout: Layout, *, env: Mapping[str, str], user: User | None) -> tuple[Supervised, ...]:
    """What to run; all but the links wait to be asked for. `user` is who the unprivileged are."""
    spec = layout.manifest.spec
    orders = [_order(layout, process, env=env, user=user) for process in spec.processes]
    for process in spec.processes:
        # A web server such as people start to share a few files, on the port of a process.
        port = str(layout.manifest.ports[process.name])
        place = own_home(layout.directory, LINKS) / "empty"
        beside = Supervised(
            name=aside(process.name),
            argv=(sys.executable, "-P", "-m", "http.server", "--bind", HOST, port),
            cwd=str(place),
            log=str(place.with_suffix(".log")),
            env=env,
            start=False,
        )
        orders.append(beside)
    if layout.manifest.links:
        home = own_home(layout.directory, LINKS)
        config = home / LINKS_CONFIG_FILE
        manifest = layout.manifest
        record = {
            "directory": str(layout.directory),
            "links": [
                {"target": process.name, "listen": manifest.links[key], "to": manifest.ports[key]}
                for process in manifest.spec.processes
                if process.linked
                for key in port_keys(process)
            ],
            "targets": [process.name for process in manifest.spec.processes],
        }
        config.write_text(json.dumps(record), encoding="utf-8")
        orders.append(
            Supervised(
                name=LINKS,
                argv=(sys.executable, "-P", "-m", "operator_lab.links", "--config", str(config)),
                cwd=str(home),
                log=str(layout.log(LINKS)),
                env=env,
            )
        )
    if spec.load is not None:
        orders.append(_load_order(layout, spec.load, env=env))
    return tuple(orders)


def aside(name: str) -> str:
    """Under which name the supervisor knows what can take the port of a process."""
    return f"{name}{_ASIDE}"


def _order(
    layout: Layout, process: ProcessSpec, *, env: Mapping[str, str], user: User | None
) -> Supervised:
    def fill_words(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(layout.fill(process, word) for word in words)

    runs_as = user if process.unprivileged else None
    home = layout.home(process.name)
    identity = {} if runs_as is None else {**runs_as.env, "HOME": str(home)}
    own = {name: layout.fill(process, value) for name, value in process.env.items()}
    return Supervised(
        name=process.name,
        argv=fill_words(process.argv),
        cwd=str(home),
        log=str(layout.log(process.name)),
        # Unbuffered, so that the last words of a killed Python process are in its log.
        env={**env, **identity, "PYTHONUNBUFFERED": "1", **own},
        start=False,
        prepare=tuple(fill_words(argv) for argv in process.prepare),
        check=fill_words(process.ready_argv),
        uid=None if runs_as is None else runs_as.uid,
        gid=None if runs_as is None else runs_as.gid,
    )


def _load_order(layout: Layout, load: LoadSpec, *, env: Mapping[str, str]) -> Supervised:
    home = own_home(layout.directory, LOAD)
    config = home / LOAD_CONFIG_FILE
    spec = layout.manifest.spec
    ports = [
        layout.manifest.public_port(process.name)
        for process in spec.processes
        if process.kind == load.kind
    ]
    if not ports or load.rate_per_s <= 0:
        raise nonsense(spec, f"there is nothing of kind {load.kind!r} to put load on")
    record = {
        "host": HOST,
        "ports": ports,
        "path": load.path,
        "body": dict(load.body),
        "rate_per_s": load.rate_per_s,
        "shape": load.shape,
        "statement": load.statement,
        "dsn": load.dsn,
        "client": load.client,
    }
    config.write_text(json.dumps(record), encoding="utf-8")
    return Supervised(
        name=LOAD,
        argv=(sys.executable, "-P", "-m", "operator_lab.load", "--config", str(config)),
        cwd=str(home),
        log=str(layout.log(LOAD)),
        env=env,
        start=False,
    )

"""A project as one signed file, made after a look for secrets and verified before it is used."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.collecting import LOCK, Collected, collect, refuse_secrets
from operator_sre.app.packages import (
    Bundle,
    damaged,
    read_bundle,
    read_lock,
    sealed,
    sha256_of,
    signed_lock,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "Installed",
    "Packed",
    "install_bundle",
    "is_trusted",
    "lock_problems",
    "pack_project",
    "read_bundle",
]

INSTALLS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Packed:
    """A bundle that was written."""

    file: str
    sha256: str
    bytes: int
    files: int
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Installed:
    """A bundle that was unpacked."""

    name: str
    folder: str
    files: int
    key: str
    sha256: str


async def pack_project(app: App, folder: Path, output: Path | None = None) -> Packed:
    """Look for secrets, then write the bundle of a project here, or where it is said."""
    from operator_sre.app.persons import myself

    packed = _packed(app, folder, output)
    told = {
        "project": packed.name,
        "file": packed.file,
        "sha256": packed.sha256,
        "files": packed.files,
        "signer": packed.key,
    }
    await app.store.journal.append(Draft(Kind.PROJECT_PACKED, told, actor=myself()))
    return packed


def is_trusted(app: App, bundle: Bundle, key: str = "") -> bool:
    """Whether its key is known: named, our own, or of what was installed here before.

    It raises when another key was named, or when this project was signed by another one before.
    """
    if key:
        if key.lower() != bundle.key:
            raise damaged(f"it is signed by {bundle.key}, not by the key that was named")
        return True
    if bundle.key == app.key.key:
        return True
    kind = Kind.PROJECT_INSTALLED
    before = app.store.entries.newest(limit=INSTALLS_MAX, kind=kind)
    signers = {one.payload.get("signer") for one in before}
    same = {one.payload.get("signer") for one in before if one.payload["project"] == bundle.name}
    if same and bundle.key not in same:
        raise damaged(
            f"{bundle.name!r} was signed by another key when it was installed before",
            step=f"If its maker has a new key, name it: --key {bundle.key}",
        )
    return bundle.key in signers


async def install_bundle(app: App, bundle: Bundle, folder: Path) -> Installed:
    """Unpack a verified bundle in one step, where nothing is yet."""
    from operator_sre.app.persons import myself

    place = _unfolded(bundle, folder)
    done = Installed(bundle.name, str(place), len(bundle.files), bundle.key, bundle.sha256)
    told = {
        "project": done.name,
        "folder": done.folder,
        "sha256": done.sha256,
        "files": done.files,
        "signer": done.key,
    }
    await app.store.journal.append(Draft(Kind.PROJECT_INSTALLED, told, actor=myself()))
    return done


def lock_problems(folder: Path) -> Iterator[tuple[ErrorCategory, str, str]]:
    """How an installed project differs from what was signed, and what it needs that is not here."""
    wrong = ErrorCategory.PACKAGE_VERIFICATION_FAILED
    own = f"Install it again; or, if the change is yours, remove {LOCK} and pack it anew."
    try:
        manifest = read_lock(folder / LOCK)
        there = {one.path: sha256_of(one.data) for one in collect(folder)}
    except OperatorError as error:
        yield wrong, error.message, error.next_step
        return
    for path, one in manifest["files"].items():
        if there.get(path) != one["sha256"]:
            how = "is missing" if path not in there else "is not what was signed"
            yield wrong, f"{str(folder / path)!r} {how}.", own
    for path in sorted(set(there) - set(manifest["files"])):
        yield wrong, f"{str(folder / path)!r} is not in what was signed.", own
    for plugin in manifest["plugins"]:
        if why := _clash(plugin):
            yield (
                ErrorCategory.DEPENDENCY_CONFLICT,
                why,
                "Install the version that it was made with.",
            )


def _packed(app: App, folder: Path, output: Path | None) -> Packed:
    from operator_sre import __version__

    place = folder.expanduser().absolute()
    if not (place / "operator.toml").is_file():
        raise UsageError(
            f"{str(place)!r} is no project: it has no operator.toml.",
            next_step="Make one with: operator init",
        )
    name = re.sub(r"[^A-Za-z0-9._-]", "-", place.name).strip(".-") or "project"
    file = (output or Path.cwd() / f"{name}.operator").expanduser().absolute()
    files = [one for one in collect(place, without=(app.config.home,)) if place / one.path != file]
    refuse_secrets(app.config, files)
    versions, plugins = {"operator-sre": __version__}, _plugins(place)
    lock = signed_lock(app.key, name=name, versions=versions, plugins=plugins, files=files)
    data = sealed(app.key, [Collected(LOCK, lock), *files])
    _write(file, data)
    digest = hashlib.sha256(data).hexdigest()
    return Packed(str(file), digest, len(data), len(files), app.key.key, name)


def _unfolded(bundle: Bundle, folder: Path) -> Path:
    place = folder.expanduser().absolute()
    if os.path.lexists(place) and not _is_free(place):
        raise UsageError(
            f"{str(place)!r} is there already, and is not overwritten.",
            next_step="Name another folder with --to.",
        )
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir(mode=0o755)
        for one in (Collected(LOCK, bundle.lock), *bundle.files):
            _unfold(draft, one)
        draft.rename(place)
    except OSError as error:
        raise OperatorError(
            f"{str(place)!r} cannot be written: {error.strerror}; nothing was installed.",
            next_step="Make room, or name another folder with --to.",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _is_free(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink() and not any(place.iterdir())


def _plugins(folder: Path) -> list[dict[str, str]]:
    """What the subjects of a project are made with: each plug-in, who brings it, which version."""
    from importlib.metadata import entry_points

    from operator_sre.config import load_config
    from operator_sre.plugins import GROUP

    config = load_config(flags={}, environ={}, cwd=folder)
    wanted = {one.plugin for one in config.subjects}
    found = {}
    for point in entry_points(group=GROUP):
        if point.name in wanted and point.dist is not None:
            found[point.name] = {
                "name": point.name,
                "distribution": point.dist.name,
                "version": point.dist.version,
            }
    return [
        found.get(one, {"name": one, "distribution": "", "version": ""}) for one in sorted(wanted)
    ]


def _clash(plugin: Mapping[str, str]) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        here = version(plugin["distribution"]) if plugin["distribution"] else plugin["version"]
    except PackageNotFoundError:
        return f"The plug-in {plugin['name']!r} needs {plugin['distribution']!r}, not installed."
    if here != plugin["version"]:
        return (
            f"The plug-in {plugin['name']!r} was packed with {plugin['distribution']}"
            f" {plugin['version']}, and here is {here}."
        )
    return ""


def _write(file: Path, data: bytes) -> None:
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(
            f"{str(file)!r} cannot be written: {error.strerror}.", next_step="Name another with -o."
        ) from error


def _unfold(folder: Path, one: Collected) -> None:
    path = folder / one.path
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    mode = 0o755 if one.executable else 0o644
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(one.data)

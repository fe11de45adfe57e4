"""A project as one signed file: scanned for secrets when packed, verified before use.

As bytes it is the same from the same files, and signed to the last of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.errors import OperatorError, UsageError
from operator_sre import __version__
from operator_sre.app.persons import myself
from operator_sre.app.project import (
    FILE_BYTES_MAX,
    FILES_MAX,
    LOCK,
    PATH_CHARACTERS_MAX,
    PROJECT_BYTES_MAX,
    Collected,
    collect,
    refuse_secrets,
)
from operator_sre.config import load_config
from operator_sre.ledger import KeyFile
from operator_sre.ledger.keys import signature_holds
from operator_sre.plugins import GROUP

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "Bundle",
    "Installed",
    "Packed",
    "damage_error",
    "install_bundle",
    "is_trusted",
    "lock_problems",
    "pack_project",
    "read_bundle",
    "read_lock",
    "seal_files",
    "sha256_of",
    "sign_lock",
]

FORMAT = 1
INSTALLS_MAX = 1000
BUNDLE_BYTES_MAX = 80 * 1024 * 1024
# What tar adds for each file, at most: its headers and what fills the last block.
TAR_BYTES_MAX = PROJECT_BYTES_MAX + FILES_MAX * 2048 + 1024 * 1024
# A gzip file with a comment, no time, and no word of the machine that made it.
_GZIP_HEAD = b"\x1f\x8b\x08\x10\x00\x00\x00\x00\x02\xff"
_COMMENT = re.compile(rb"operator-bundle 1 ed25519 ([0-9a-f]{64}) ([0-9a-f]{128})\0")
_COMMENT_BYTES_MAX = 256
# What is signed says what for, so that no other signature of the same key fits.
_SIGNED = b"operator-bundle 1\n"
_LOCKED = b"operator-lock 1\n"
_PLUGIN_KEYS = ("name", "distribution", "version")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was read whole, and is what its key has signed."""

    key: str
    sha256: str
    manifest: Mapping[str, Any]
    lock: bytes = field(repr=False)
    files: tuple[Collected, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """What the project was called where it was packed."""
        return str(self.manifest["name"])


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


async def pack_project(app: App, directory: Path, output: Path | None = None) -> Packed:
    """Scan for secrets, then write the bundle of a project, by default here."""
    packed = _write_bundle(app, directory, output)
    payload = {
        "project": packed.name,
        "file": packed.file,
        "sha256": packed.sha256,
        "files": packed.files,
        "signer": packed.key,
    }
    await app.store.journal.append(Draft(Kind.PROJECT_PACKED, payload, actor=myself()))
    return packed


def _write_bundle(app: App, folder: Path, output: Path | None) -> Packed:
    place = folder.expanduser().absolute()
    if not (place / "operator.toml").is_file():
        raise UsageError(
            f"{str(place)!r} is not a project: it has no operator.toml.",
            next_step="Create one with: operator init",
        )
    name = re.sub(r"[^A-Za-z0-9._-]", "-", place.name).strip(".-") or "project"
    file = (output or Path.cwd() / f"{name}.operator").expanduser().absolute()
    found = collect(place, without=(app.config.home,))
    files = [member for member in found if place / member.path != file]
    refuse_secrets(app.config, files)
    from importlib.metadata import entry_points  # not quickly loaded

    # The plug-ins of the project's subjects, each with its distribution and version.
    config = load_config(flags={}, environ={}, cwd=place)
    plugins = {subject.plugin: dict.fromkeys(_PLUGIN_KEYS, "") for subject in config.subjects}
    for point in entry_points(group=GROUP):
        if point.name in plugins and point.dist is not None:
            plugins[point.name] |= {"distribution": point.dist.name, "version": point.dist.version}
    lock = sign_lock(
        app.key,
        name=name,
        versions={"operator-sre": __version__},
        plugins=[{**plugins[plugin], "name": plugin} for plugin in sorted(plugins)],
        files=files,
    )
    data = seal_files(app.key, [Collected(LOCK, lock), *files])
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
    return Packed(str(file), sha256_of(data), len(data), len(files), app.key.key, name)


def is_trusted(app: App, bundle: Bundle, key: str = "") -> bool:
    """Whether its key is known: named, our own, or of what was installed here before.

    It raises when another key was named, or when this project was signed by another one before.
    """
    if key:
        if key.lower() != bundle.key:
            raise damage_error(f"it is signed by {bundle.key}, not by the given key")
        return True
    if bundle.key == app.key.key:
        return True
    before = app.store.entries.newest(limit=INSTALLS_MAX, kind=Kind.PROJECT_INSTALLED)
    signers = {name.payload.get("signer") for name in before}
    same = {name.payload.get("signer") for name in before if name.payload["project"] == bundle.name}
    if same and bundle.key not in same:
        raise damage_error(
            f"an earlier version of {bundle.name!r} was signed by another key",
            step=f"If its author has a new key, pass it: --key {bundle.key}",
        )
    return bundle.key in signers


async def install_bundle(app: App, bundle: Bundle, folder: Path) -> Installed:
    """Unpack a verified bundle in one step, where nothing is yet."""
    place = _unpack(bundle, folder)
    done = Installed(bundle.name, str(place), len(bundle.files), bundle.key, bundle.sha256)
    payload = {
        "project": done.name,
        "folder": done.folder,
        "sha256": done.sha256,
        "files": done.files,
        "signer": done.key,
    }
    await app.store.journal.append(Draft(Kind.PROJECT_INSTALLED, payload, actor=myself()))
    return done


def _unpack(bundle: Bundle, folder: Path) -> Path:
    place = folder.expanduser().absolute()
    if os.path.lexists(place) and (
        not place.is_dir() or place.is_symlink() or any(place.iterdir())
    ):
        raise UsageError(
            f"{str(place)!r} already exists and is not overwritten.",
            next_step="Name another directory with --to.",
        )
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir(mode=0o755)
        for packed in (Collected(LOCK, bundle.lock), *bundle.files):
            path = draft / packed.path
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            mode = 0o755 if packed.executable else 0o644
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(packed.data)
        draft.rename(place)
    except OSError as error:
        raise OperatorError(
            f"{str(place)!r} cannot be written: {error.strerror}; nothing was installed.",
            next_step="Free disk space, or name another directory with --to.",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def lock_problems(folder: Path) -> Iterator[tuple[ErrorCategory, str, str]]:
    """How an installed project differs from what was signed, and what it needs that is not here."""
    from importlib.metadata import PackageNotFoundError, version  # not quickly loaded

    wrong = ErrorCategory.PACKAGE_VERIFICATION_FAILED
    own = f"Install it again; or, if you made the change, remove {LOCK} and pack it again."
    try:
        manifest = read_lock(folder / LOCK)
        there = {file.path: sha256_of(file.data) for file in collect(folder)}
    except OperatorError as error:
        yield wrong, error.message, error.next_step
        return
    for path, details in manifest["files"].items():
        if there.get(path) != details["sha256"]:
            how = "is missing" if path not in there else "differs from the signed file"
            yield wrong, f"{str(folder / path)!r} {how}.", own
    for path in sorted(set(there) - set(manifest["files"])):
        yield wrong, f"{str(folder / path)!r} is not part of the signed bundle.", own
    conflict, step = (
        ErrorCategory.DEPENDENCY_CONFLICT,
        "Install the version that the bundle was packed with.",
    )
    for plugin in manifest["plugins"]:
        name, distribution, packed = (plugin[key] for key in _PLUGIN_KEYS)
        try:
            here = version(distribution) if distribution else packed
        except PackageNotFoundError:
            yield (
                conflict,
                f"Plug-in {name!r} requires {distribution!r}, which is not installed.",
                step,
            )
            continue
        if here != packed:
            why = f"Plug-in {name!r} was packed with {distribution} {packed}; {here} is installed."
            yield conflict, why, step


def sign_lock(
    key: KeyFile,
    *,
    name: str,
    versions: Mapping[str, str],
    plugins: Sequence[Mapping[str, str]],
    files: Sequence[Collected],
) -> bytes:
    """The manifest, signed by itself, so that it can be verified wherever it is unpacked."""
    manifest = {
        "format": FORMAT,
        "name": name,
        "versions": dict(versions),
        "plugins": [dict(plugin) for plugin in plugins],
        "files": {
            file.path: {
                "sha256": sha256_of(file.data),
                "bytes": len(file.data),
                "executable": file.executable,
            }
            for file in files
        },
    }
    signature = key.sign(_LOCKED + hashlib.sha256(_canonical(manifest)).digest())
    signed = {"manifest": manifest, "signer": key.key, "signature": signature.hex()}
    return json.dumps(signed, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def seal_files(key: KeyFile, files: Sequence[Collected]) -> bytes:
    """A tar as a gzip file, whose comment is a signature of all that follows it."""
    archive = _archive(files)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(archive) + packer.flush()
    body += struct.pack("<II", zlib.crc32(archive), len(archive) & 0xFFFFFFFF)
    signature = key.sign(_SIGNED + hashlib.sha256(body).digest())
    comment = f"operator-bundle 1 ed25519 {key.key} {signature.hex()}\0".encode()
    return _GZIP_HEAD + comment + body


def _archive(files: Sequence[Collected]) -> bytes:
    """Files as a tar that is the same wherever it is made."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in files:
            member = tarfile.TarInfo(file.path)
            member.size, member.mtime = len(file.data), 0
            member.mode = 0o755 if file.executable else 0o644
            tar.addfile(member, io.BytesIO(file.data))
    return made.getvalue()


def read_bundle(file: Path) -> Bundle:
    """A bundle, verified to its last byte; nothing is unpacked. It raises for any damage."""
    data = _read(file, limit=BUNDLE_BYTES_MAX)
    begin = len(_GZIP_HEAD)
    comment = _COMMENT.match(data, begin, begin + _COMMENT_BYTES_MAX)
    if not data.startswith(_GZIP_HEAD) or comment is None:
        raise damage_error("it is not a bundle, or its header is damaged")
    key, signature = comment[1].decode(), bytes.fromhex(comment[2].decode())
    signed = _SIGNED + hashlib.sha256(data[comment.end() :]).digest()
    if not signature_holds(key, signed, signature):
        raise damage_error("its signature is invalid")
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        archive = unpacker.decompress(data, TAR_BYTES_MAX)
    except zlib.error as error:
        raise damage_error("it cannot be unpacked") from error
    if not unpacker.eof or unpacker.unused_data:
        raise damage_error("it is too large, or data follows the archive")
    files = _read_archive(archive)
    if not files or files[0].path != LOCK:
        raise damage_error("it has no manifest")
    manifest, signer = _read_manifest(files[0].data)
    if signer != key:
        raise damage_error("its manifest is signed by another key")
    listed = {
        path: (details["sha256"], details["executable"])
        for path, details in manifest["files"].items()
    }
    there = {member.path: (sha256_of(member.data), member.executable) for member in files[1:]}
    if listed != there or len(there) != len(files) - 1:
        raise damage_error("its files are not those of its manifest")
    return Bundle(key, sha256_of(data), manifest, files[0].data, files[1:])


def read_lock(file: Path) -> Mapping[str, Any]:
    """The manifest of an unpacked project, if its signature holds."""
    return _read_manifest(_read(file, limit=FILE_BYTES_MAX))[0]


def _read_archive(archive: bytes) -> tuple[Collected, ...]:
    """The files of a tar, if it holds nothing but plain files inside of its folder."""
    files: list[Collected] = []
    size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                name = member.name
                size += member.size
                too_much = len(files) > FILES_MAX or size > PROJECT_BYTES_MAX + FILE_BYTES_MAX
                if too_much or member.size > FILE_BYTES_MAX:
                    raise damage_error("it is too large")
                plain = name.isprintable() and "\\" not in name and len(name) <= PATH_CHARACTERS_MAX
                inside = plain and not {"", ".", ".."} & set(name.split("/"))
                if not member.isreg() or not inside:
                    raise damage_error(f"{name[:80]!r} is not a regular file inside the bundle")
                opened = tar.extractfile(member)
                data = opened.read() if opened is not None else b""
                files.append(Collected(name, data, bool(member.mode & stat.S_IXUSR)))
    except (tarfile.TarError, EOFError, ValueError, UnicodeDecodeError) as error:
        raise damage_error("it cannot be unpacked") from error
    if _archive(files) != archive:
        raise damage_error("it contains more than its files")
    return tuple(files)


def _read_manifest(lock: bytes) -> tuple[dict[str, Any], str]:
    """The manifest of a lock, if its signature holds, and who has signed it."""
    try:
        document = json.loads(lock)
        manifest, signer = document["manifest"], str(document["signer"])
        signature = bytes.fromhex(document["signature"])
        files, plugins = manifest["files"], manifest["plugins"]
        shaped = (
            manifest["format"] == FORMAT
            and isinstance(manifest["name"], str)
            and all(isinstance(file["sha256"], str) for file in files.values())
            and all(isinstance(file["executable"], bool) for file in files.values())
            and all(isinstance(plugin[key], str) for plugin in plugins for key in _PLUGIN_KEYS)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damage_error(f"its {LOCK} is invalid") from error
    signed = _LOCKED + hashlib.sha256(_canonical(manifest)).digest()
    if not shaped or not signature_holds(signer, signed, signature):
        raise damage_error(f"the signature of its {LOCK} is invalid")
    return manifest, signer


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def sha256_of(data: bytes) -> str:
    """The digest of a file, as manifests have it."""
    return hashlib.sha256(data).hexdigest()


def _read(file: Path, *, limit: int) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise UsageError(f"{str(file)!r} is not a file.", next_step="Name a bundle.")
            data = opened.read(limit + 1)
    except OSError as error:
        raise UsageError(
            f"{str(file)!r} cannot be read: {error.strerror}.", next_step="Name a bundle."
        ) from error
    if len(data) > limit:
        raise damage_error("it is too large")
    return data


def damage_error(why: str, *, step: str = "Ask its author for a new copy.") -> OperatorError:
    """The error of what is not as it was signed."""
    error = OperatorError(f"The bundle cannot be trusted: {why}.", next_step=step)
    error.category = ErrorCategory.PACKAGE_VERIFICATION_FAILED
    error.next_action = NextAction.ASK_USER
    return error

"""A packed project: the same bytes twice, no secret in it, and verified before it is believed."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import random
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Kind
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app import bundles
from operator_sre.app import project as project_module
from operator_sre.app.bundles import (
    Bundle,
    Installed,
    Packed,
    damage_error,
    install_bundle,
    is_trusted,
    lock_problems,
    pack_project,
    read_bundle,
    read_lock,
    seal_files,
    sha256_of,
    sign_lock,
)
from operator_sre.app.project import (
    LOCK,
    Collected,
    FoundSecret,
    collect,
    found_secrets,
    init_project,
    refuse_secrets,
)
from operator_sre.app.wiring import App
from operator_sre.ledger import KeyFile
from tests.app.home import SUBJECTS, opened

FAILED = ErrorCategory.PACKAGE_VERIFICATION_FAILED


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path, "", secrets_in="file") as home:
        yield home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    init_project(folder)
    (folder / "operator.toml").write_text(SUBJECTS)
    (folder / "subjects" / "look.sh").write_text("#!/bin/sh\nuptime\n")
    (folder / "subjects" / "look.sh").chmod(0o755)
    return folder


def pack(app: App, project: Path, name: str = "shop.operator") -> Packed:
    return asyncio.run(pack_project(app, project, project.parent / name))


def install(app: App, file: Path, to: Path) -> Installed:
    return asyncio.run(install_bundle(app, read_bundle(file), to))


def refused(file: Path) -> str:
    with pytest.raises(OperatorError) as error:
        read_bundle(file)
    assert (error.value.category, error.value.next_action) == (FAILED, NextAction.ASK_USER)
    return error.value.message


def test_the_same_folder_makes_the_same_bytes(app: App, project: Path) -> None:
    first = pack(app, project)
    data = Path(first.file).read_bytes()
    for file in sorted(project.rglob("*"), reverse=True):
        os.utime(file, (1, 1))
    (project / "policy.yaml").chmod(0o600)
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert Path(pack(app, project, "again.operator").file).read_bytes() == data
    assert first.sha256 == hashlib.sha256(data).hexdigest()
    with tarfile.open(first.file) as tar:  # any tar reads it
        told = tar.getmembers()
    names = [one.name for one in told]
    assert names == [LOCK, *sorted(names[1:])]
    owners = {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in told}
    assert owners == {(0, 0, "", "", 0)}
    modes = {one.name: one.mode for one in told}
    assert (modes["subjects/look.sh"], modes["policy.yaml"]) == (0o755, 0o644)


def test_it_is_verified_installed_and_recorded(app: App, project: Path, tmp_path: Path) -> None:
    packed = pack(app, project)
    bundle = read_bundle(Path(packed.file))
    assert isinstance(bundle, Bundle)
    assert (bundle.name, bundle.key, bundle.sha256) == ("shop", app.key.key, packed.sha256)
    (plugin,) = bundle.manifest["plugins"]
    assert (plugin["name"], plugin["distribution"]) == ("ratelimiter", "operator-sre")
    done = install(app, Path(packed.file), tmp_path / "got")
    before, after = collect(project), collect(tmp_path / "got")
    assert before == after
    assert done.files == len(before)
    assert list(lock_problems(tmp_path / "got")) == []
    assert read_lock(tmp_path / "got" / LOCK) == bundle.manifest
    entries = app.store.entries.after(0, limit=10)
    assert [one.kind for one in entries] == [Kind.PROJECT_PACKED, Kind.PROJECT_INSTALLED]
    assert {one.payload["sha256"] for one in entries} == {packed.sha256}
    assert {one.payload["signer"] for one in entries} == {app.key.key}


def test_every_damaged_byte_is_found_and_nothing_is_written(app: App, project: Path) -> None:
    data = Path(pack(app, project).file).read_bytes()
    file = project.parent / "damaged.operator"
    before = sorted(project.parent.iterdir())
    chosen = random.Random(7)
    for at in range(len(data)):
        file.write_bytes(
            data[:at] + bytes([data[at] ^ (1 << chosen.randrange(8))]) + data[at + 1 :]
        )
        refused(file)
    for changed in (b"", data[:-1], data + b"\0", data + data, data[1:], data[:200]):
        file.write_bytes(changed)
        refused(file)
    file.unlink()
    assert sorted(project.parent.iterdir()) == before


def forged(app: App, members: list[tarfile.TarInfo | Collected]) -> bytes:
    """A bundle that is signed as it should be, and holds what it should not."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for one in members:
            if isinstance(one, tarfile.TarInfo):
                tar.addfile(one, io.BytesIO(bytes(one.size)))
            else:
                told = tarfile.TarInfo(one.path)
                told.size = len(one.data)
                tar.addfile(told, io.BytesIO(one.data))
    return signed(app, made.getvalue())


def signed(app: App, archive: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(archive) + packer.flush()
    body += struct.pack("<II", zlib.crc32(archive), len(archive) & 0xFFFFFFFF)
    signature = app.key.sign(b"operator-bundle 1\n" + hashlib.sha256(body).digest())
    comment = f"operator-bundle 1 ed25519 {app.key.key} {signature.hex()}\0".encode()
    return b"\x1f\x8b\x08\x10\x00\x00\x00\x00\x02\xff" + comment + body


def test_what_a_signer_may_not_do_either(app: App, tmp_path: Path) -> None:
    file = tmp_path / "forged.operator"
    lock = sign_lock(app.key, name="x", versions={}, plugins=[], files=[])
    first = Collected(LOCK, lock)
    link = tarfile.TarInfo("etc")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    device = tarfile.TarInfo("zero")
    device.type = tarfile.CHRTYPE
    wrong: dict[str, list[tarfile.TarInfo | Collected]] = {
        "no manifest": [],
        "no lock": [Collected("a", b"")],
        "not in the manifest": [first, Collected("extra", b"")],
        "above": [first, Collected("../evil", b"")],
        "absolute": [first, Collected("/evil", b"")],
        "inside": [first, Collected("a/../../evil", b"")],
        "windows": [first, Collected("a\\..\\evil", b"")],
        "terminal": [first, Collected("a\x1b[2J", b"")],
        "link": [first, link],
        "device": [first, device],
        "twice": [first, first],
        "nonsense": [Collected(LOCK, b"[" * 5000)],
        "empty": [Collected(LOCK, b"{}")],
        "unsigned": [Collected(LOCK, lock.replace(b'"name": "x"', b'"name": "y"'))],
    }
    for name, members in wrong.items():
        file.write_bytes(forged(app, members))
        assert refused(file).startswith("The bundle cannot be trusted"), name
    file.write_bytes(seal_files(app.key, [first]))
    assert read_bundle(file).files == ()
    assert not (tmp_path.parent / "evil").exists()


def test_a_bomb_is_refused_before_it_goes_off(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bomb.operator"
    monkeypatch.setattr(bundles, "TAR_BYTES_MAX", 1 << 20)
    file.write_bytes(signed(app, bytes(1 << 22)))
    assert "too large" in refused(file)
    monkeypatch.setattr(bundles, "BUNDLE_BYTES_MAX", 1000)
    file.write_bytes(bytes(2000))
    assert "too large" in refused(file)
    huge = tarfile.TarInfo("huge")
    huge.size = 600_000
    monkeypatch.setattr(bundles, "BUNDLE_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(bundles, "FILE_BYTES_MAX", 500_000)
    file.write_bytes(forged(app, [huge]))
    assert "too large" in refused(file)


def test_a_key_is_trusted_when_it_is_named_ours_or_known(app: App, tmp_path: Path) -> None:
    def made(key: KeyFile, name: str = "shop") -> Bundle:
        lock = sign_lock(key, name=name, versions={}, plugins=[], files=[])
        file = tmp_path / "made.operator"
        file.write_bytes(seal_files(key, [Collected(LOCK, lock)]))
        return read_bundle(file)

    theirs, others = KeyFile(tmp_path / "theirs"), KeyFile(tmp_path / "others")
    assert is_trusted(app, made(app.key))
    assert not is_trusted(app, made(theirs))
    assert is_trusted(app, made(theirs), theirs.key)
    with pytest.raises(OperatorError, match="not by the given key"):
        is_trusted(app, made(theirs), others.key)
    asyncio.run(install_bundle(app, made(theirs), tmp_path / "one"))
    assert is_trusted(app, made(theirs))
    assert is_trusted(app, made(theirs, "another"))
    with pytest.raises(OperatorError, match="signed by another key") as changed:
        is_trusted(app, made(others))
    assert changed.value.category is FAILED
    assert is_trusted(app, made(others), others.key)


def test_a_secret_is_named_by_its_place_and_never_by_itself(app: App, project: Path) -> None:
    from operator_sre.app.secrets import set_secret

    asyncio.run(set_secret(app, "db", "plain words that are kept"))
    (project / "a.txt").write_text("one\ntwo plain words that are kept\n")
    (project / "b.env").write_text("\n\nDB_PASSWORD=hunter2-Xk29fjQ\n")
    (project / "ledger.key").write_bytes(bytes(range(32)))
    files = collect(project)
    found = list(found_secrets(app.config, files))
    assert FoundSecret("a.txt", 2, "kept_secret") in found
    assert FoundSecret("ledger.key", 1, "key_file") in found
    assert [one.line for one in found if one.file == "b.env"] == [3]
    with pytest.raises(OperatorError) as error:
        pack(app, project)
    told = str(error.value)
    assert (error.value.category, error.value.next_action) == (
        ErrorCategory.SECRET_SCAN_FAILED,
        NextAction.FIX_CODE,
    )
    assert "a.txt:2 (kept_secret)" in told
    assert "hunter2" not in told
    assert "plain words" not in told
    assert not (project.parent / "shop.operator").exists()
    refuse_secrets(app.config, [Collected("fine.txt", b"nothing in here")])


def test_links_and_what_is_too_much_are_not_packed(
    app: App, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    odd: dict[str, Callable[[Path], object]] = {
        "file": lambda path: path.symlink_to("/etc/passwd"),
        "folder": lambda path: path.symlink_to(outside),
        "pipe": os.mkfifo,
        "line\nend": lambda path: path.write_text(""),
    }
    for name, make in odd.items():
        path = project / name
        make(path)
        with pytest.raises(UsageError):
            pack(app, project)
        path.unlink()
    pack(app, project)
    monkeypatch.setattr(project_module, "FILE_BYTES_MAX", 10)
    with pytest.raises(UsageError, match="is larger than"):
        collect(project)
    with pytest.raises(UsageError, match="operator init"):
        pack(app, outside)


def test_nothing_is_overwritten(app: App, project: Path, tmp_path: Path) -> None:
    file = Path(pack(app, project).file)
    taken = tmp_path / "taken"
    taken.mkdir()
    install(app, file, taken)  # an empty folder is nobody's
    (taken / "mine").write_text("mine")
    plain = tmp_path / "plain"
    plain.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for place in (taken, plain, link):
        with pytest.raises(UsageError, match="not overwritten"):
            install(app, file, place)
    assert (plain.read_text(), (taken / "mine").read_text()) == ("mine", "mine")
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]


def test_an_installed_project_says_how_it_differs(app: App, project: Path, tmp_path: Path) -> None:
    got = tmp_path / "got"
    install(app, Path(pack(app, project).file), got)
    (got / "policy.yaml").write_text("version: 1\n")
    (got / "extra.txt").write_text("x")
    (got / ".gitignore").unlink()
    told = {
        message.split("'")[1].rpartition("/")[2]: kind for kind, message, _ in lock_problems(got)
    }
    assert told == dict.fromkeys(["policy.yaml", "extra.txt", ".gitignore"], FAILED)
    lock = got / LOCK
    lock.write_bytes(lock.read_bytes().replace(b'"name": "shop"', b'"name": "ship"'))
    ((kind, message, _),) = lock_problems(got)
    assert (kind, "signature" in message) == (FAILED, True)


def test_a_version_that_clashes_is_a_conflict_of_dependencies(app: App, tmp_path: Path) -> None:
    plugins = [
        {"name": "ratelimiter", "distribution": "operator-sre", "version": "0.0.0"},
        {"name": "mysql", "distribution": "no-such-distribution", "version": "1"},
    ]
    lock = sign_lock(app.key, name="x", versions={}, plugins=plugins, files=[])
    folder = tmp_path / "clash"
    folder.mkdir()
    (folder / LOCK).write_bytes(lock)
    found = list(lock_problems(folder))
    assert {kind for kind, _, _ in found} == {ErrorCategory.DEPENDENCY_CONFLICT}
    assert len(found) == 2
    assert sha256_of(b"") in str(hashlib.sha256(b"").hexdigest())
    assert damage_error("why").category is FAILED

"""A release is verified offline: every file, the signature, and nothing that does not belong."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import release
from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_sre import __version__
from operator_sre.app.release_files import (
    BILL,
    SIGNATURE,
    SIGNED,
    SUMS,
    VerifiedRelease,
    shipped_key,
    sum_of,
    verify_release,
)
from operator_sre.ledger import KeyFile
from tests.every import every

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def signer(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "release.key")


@pytest.fixture
def folder(tmp_path: Path, signer: KeyFile) -> Path:
    """A small release."""
    return _release(tmp_path / "dist", signer)


def _release(place: Path, signer: KeyFile) -> Path:
    place.mkdir()
    for name in ("operator_sre-1.0.0-py3-none-any.whl", "constraints.txt"):
        (place / name).write_text(name)
    lines = [f"{sum_of(file)}  {file.name}\n" for file in sorted(place.iterdir())]
    (place / SUMS).write_text("".join(lines))
    (place / SIGNATURE).write_text(signer.sign(SIGNED + (place / SUMS).read_bytes()).hex())
    return place


def test_a_whole_release_is_verified(folder: Path, signer: KeyFile) -> None:
    found = verify_release(folder, key=signer.key)
    assert isinstance(found, VerifiedRelease)
    assert found.files == ("constraints.txt", "operator_sre-1.0.0-py3-none-any.whl")
    assert shipped_key() == "", "a checkout is not a release"


def _edit(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + b" ")


@every(
    ("damage", "words"),
    [
        (_edit("constraints.txt"), "not the file"),
        (_edit(SUMS), "was not signed"),
        (lambda folder: (folder / SIGNATURE).write_text("00" * 64), "was not signed"),
        (lambda folder: (folder / SIGNATURE).write_text("none"), "was not signed"),
        (lambda folder: (folder / "constraints.txt").unlink(), "is missing"),
        (lambda folder: (folder / SUMS).unlink(), "cannot be read"),
        (lambda folder: (folder / "other-1.0-py3-none-any.whl").touch(), "does not belong"),
    ],
)
def test_every_damage_is_named(
    tmp_path: Path, signer: KeyFile, damage: Callable[[Path], object], words: str
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as name:
        folder = _release(Path(name) / "dist", signer)
        damage(folder)
        _refuse(folder, signer, words)


def _refuse(folder: Path, signer: KeyFile, words: str) -> None:
    with pytest.raises((OperatorError, NotFoundError), match=words):
        verify_release(folder, key=signer.key)


def test_another_key_and_no_key_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="was not signed"):
        verify_release(folder, key=KeyFile(tmp_path / "other.key").key)
    with pytest.raises(UsageError, match="64 hexadecimal"):
        verify_release(folder, key="abc")


RELEASED = "# Changelog\n\n## Unreleased\n\n{}\n## 1.4.2 (2026-03-04)\n\n- Old.\n"


@every(
    ("section", "version"),
    [
        ("### Watching\n- New.\n", "1.5.0"),
        ("### Fixed\n- A bug.\n", "1.4.3"),
        ("### Fixed\n- A bug.\n### Breaking\n- Gone.\n", "2.0.0"),
    ],
)
def test_the_version_follows_from_the_changelog(section: str, version: str) -> None:
    assert release.next_version(RELEASED.format(section), "1.4.2") == version


def test_a_first_release_has_the_version_of_the_tree_and_an_empty_one_is_refused() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert release.next_version(changelog, __version__) == __version__
    before_one = RELEASED.replace("1.4.2", "0.4.2").format("### Breaking\n- Gone.\n")
    assert release.next_version(before_one, "0.4.2") == "0.5.0"
    for text in (RELEASED.format(""), "# Changelog\n"):
        with pytest.raises(release.ReleaseError):
            release.next_version(text, "1.4.2")


def test_a_version_is_written_wherever_it_is_stated(tmp_path: Path) -> None:
    for name in (*release.VERSIONED, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    release.write_version(tmp_path, "7.8.9", "2026-03-04")
    for name in release.VERSIONED:
        text = (tmp_path / name).read_text()
        assert re.search(r'version(__)? = "7\.8\.9"', text), name
        assert len(text) == len((ROOT / name).read_text())
    assert "## Unreleased\n\n## 7.8.9 (2026-03-04)\n" in (tmp_path / "CHANGELOG.md").read_text()


def test_the_bill_names_what_an_installation_brings(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("msgspec==1\n")
    release.write_bill(tmp_path, __version__)
    bill = json.loads((tmp_path / BILL).read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    names = [component["name"] for component in bill["components"]]
    assert {"cryptography", "msgspec", "operator-protocols", "uvicorn", "pydantic-core"} <= {*names}
    assert not {"pytest", "ruff", "mypy"} & {*names}, "what only developers need is not installed"
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(set(references)) == len(references)
    assert all(
        component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
        for component in bill["components"]
    )
    first = (tmp_path / BILL).read_bytes()
    release.write_bill(tmp_path, __version__)
    assert (tmp_path / BILL).read_bytes() == first, "the same tree has the same bill"


@pytest.mark.slow
def test_a_release_is_built_signed_and_verified_with_the_key_it_came_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, key = tmp_path / "dist", tmp_path / "release.key"
    assert release.main([str(place), "--key", str(key)]) == 0, capsys.readouterr().err
    found = verify_release(place, key=KeyFile(key).key)
    assert len([name for name in found.files if name.endswith(".whl")]) == 5
    assert {BILL, "constraints.txt"} <= {*found.files}

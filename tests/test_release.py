"""Which code was measured is known: a commit, whether it was changed, or a version."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from operator_sre import __version__, release
from operator_sre.release import code_revision, describe_version, documentation, read_pages
from tests.every import every

WHO = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")


def _git(folder: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ("git", *WHO, *words), cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_checkout_is_named_by_its_commit_and_by_whether_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "src" / "ours.py"
    ours.parent.mkdir()
    ours.write_text("A = 1\n")
    assert code_revision(ours) == __version__  # no checkout at all
    _git(tmp_path, "init", "-q")
    assert code_revision(ours) == __version__  # the checkout of something else
    _git(tmp_path, "add", ".")
    assert code_revision(ours) == __version__  # nothing is committed yet
    _git(tmp_path, "commit", "-q", "-m", "one")
    commit = _git(tmp_path, "rev-parse", "HEAD")
    assert len(commit) == 40
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert code_revision(ours) == commit
    monkeypatch.delenv("GIT_DIR")
    (tmp_path / "new.py").write_text("")
    assert code_revision(ours) == f"{commit}+"  # also a file that git does not know
    (tmp_path / "new.py").unlink()
    ours.write_text("A = 2\n")
    assert code_revision(ours) == f"{commit}+"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_revision(ours) == __version__  # nobody who could tell


def test_a_wheel_is_named_by_the_commit_of_its_build(tmp_path: Path) -> None:
    (tmp_path / "manual").mkdir()
    (tmp_path / "manual" / "commit.txt").write_text("c0ffee\n")
    assert code_revision(tmp_path / "release.py") == "c0ffee"


@every(
    ("revision", "version"),
    [
        ("0123456789abcdef", f"{__version__} (commit 0123456789ab)"),
        ("0123456789abcdef+", f"{__version__} (commit 0123456789ab, with local changes)"),
        (__version__, __version__),
    ],
)
def test_the_version_is_for_people(
    monkeypatch: pytest.MonkeyPatch, revision: str, version: str
) -> None:
    monkeypatch.setattr(release, "code_revision", lambda: revision)
    assert describe_version() == version


def test_a_page_is_named_by_its_path_and_its_first_heading(tmp_path: Path) -> None:
    (tmp_path / "subjects").mkdir()
    (tmp_path / "subjects" / "etcd.md").write_text("intro\n# etcd, watched\n# Next\n")
    (tmp_path / "empty.md").write_text("")
    assert read_pages(tmp_path) == {"empty": "", "subjects/etcd": "etcd, watched"}


def test_a_checkout_reads_its_own_documentation() -> None:
    folder = documentation()
    assert folder is not None
    assert read_pages(folder)["gate"] == "The gate"

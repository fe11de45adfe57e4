"""Which code was measured is known: a commit, whether it was changed, or a version."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from operator_evals.app.campaigns import begin_campaign, code_revision
from operator_evals.campaign import Campaign, Variant
from operator_evals.database import open_database
from operator_sre import __version__
from operator_sre.clock import SystemClock

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


def test_a_campaign_says_which_code_it_was_begun_with(tmp_path: Path) -> None:
    campaign = Campaign("c", (), (Variant("reasoner"),), {"reasoner": 1})
    with open_database(tmp_path / "eval.db") as facts:
        begin_campaign(facts, campaign, SystemClock())
        assert facts.campaign("c").machine["revision"] == code_revision()

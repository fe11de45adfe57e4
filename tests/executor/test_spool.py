"""Whole outputs are kept for their owner, under their hash, and not forever."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_sre.executor import jobs as spools
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from tests.executor.jobs import run_in


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def _kept(spool: Spool, folder: Path, data: bytes) -> str:
    """The digest of an output that was taken in."""
    path, digest = folder / "output", hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    path.chmod(0o600)
    spool.keep(path, digest)
    return digest


def test_an_output_lies_under_its_hash_for_its_owner_only(spool: Spool, tmp_path: Path) -> None:
    digest = _kept(spool, tmp_path, b"output")
    path = spool.path_of(digest)
    assert path is not None
    assert path.read_bytes() == b"output"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    assert not (tmp_path / "output").exists()


def test_equal_outputs_are_kept_once(spool: Spool, tmp_path: Path) -> None:
    assert _kept(spool, tmp_path, b"same") == _kept(spool, tmp_path, b"same")
    assert len(list((tmp_path / "spool").iterdir())) == 1


def test_what_was_taken_before_is_not_missed(spool: Spool, tmp_path: Path) -> None:
    digest = _kept(spool, tmp_path, b"once")
    spool.keep(tmp_path / "output", digest)
    assert spool.path_of(digest) is not None


def test_old_outputs_are_forgotten(spool: Spool, tmp_path: Path) -> None:
    digest = _kept(spool, tmp_path, b"old")
    path = spool.path_of(digest)
    assert path is not None
    past = time.time() - spools.KEPT_S - 60
    os.utime(path, (past, past))
    _kept(spool, tmp_path, b"new")
    assert spool.path_of(digest) is None


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "x" * 64, "a" * 63, "/" * 64])
def test_only_a_hash_names_an_output(spool: Spool, digest: str) -> None:
    assert spool.path_of(digest) is None


@pytest.mark.asyncio
async def test_a_command_leaves_all_it_said_and_the_result_says_where(spool: Spool) -> None:
    result = await run_in(LocalShell(Programs(spool)), Action.shell("seq 1 50000; echo oops >&2"))
    assert result.truncated
    whole = spool.path_of(result.stdout_sha256)
    assert whole is not None
    assert whole.read_text() == "".join(f"{n}\n" for n in range(1, 50001))
    problem = spool.path_of(result.stderr_sha256)
    assert problem is not None
    assert problem.read_text() == "oops\n"

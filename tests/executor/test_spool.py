"""Whole outputs are kept for their owner, under their hash, and not forever."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action
from operator_sre.executor import spool as spools
from operator_sre.executor.programs import Programs
from operator_sre.executor.spool import Spool, Spooled
from operator_sre.executor.transports.local import LocalShell
from tests.executor.jobs import run_in


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def _told(spool: Spool, *chunks: tuple[int, bytes]) -> dict[int, str]:
    spooled: Spooled = spool.begin()
    for stream, data in chunks:
        spooled.feed(stream, data)
    return spooled.end()


def test_each_stream_lies_under_its_hash_for_its_owner_only(spool: Spool, tmp_path: Path) -> None:
    hashes = _told(spool, (1, b"out"), (2, b"err"), (1, b"put"))
    assert hashes[1] == hashlib.sha256(b"output").hexdigest()
    path = spool.path_of(hashes[1])
    assert path is not None
    assert path.read_bytes() == b"output"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700


def test_a_stream_that_said_nothing_has_no_file(spool: Spool, tmp_path: Path) -> None:
    assert _told(spool) == {}
    assert list((tmp_path / "spool").iterdir()) == []


def test_equal_outputs_are_kept_once(spool: Spool, tmp_path: Path) -> None:
    assert _told(spool, (1, b"same")) == _told(spool, (1, b"same"))
    assert len(list((tmp_path / "spool").iterdir())) == 1


def test_old_outputs_are_forgotten(spool: Spool) -> None:
    digest = _told(spool, (1, b"old"))[1]
    path = spool.path_of(digest)
    assert path is not None
    past = time.time() - spools.KEPT_S - 60
    os.utime(path, (past, past))
    spool.begin().end()
    assert spool.path_of(digest) is None


def test_one_output_takes_only_so_much(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "BYTES_MAX", 10)
    digest = _told(spool, (1, b"123456"), (1, b"789012345"))[1]
    path = spool.path_of(digest)
    assert path is not None
    assert path.read_bytes() == b"1234567890"


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "x" * 64, "a" * 63, "/" * 64])
def test_only_a_hash_names_an_output(spool: Spool, digest: str) -> None:
    spool.begin()
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

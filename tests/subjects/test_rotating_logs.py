"""A log begins anew: nothing of it is lost, whoever writes to it goes on, and others' are left."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Result
from operator_protocols.domain.target import Target
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.plugins import find_plugin
from operator_sre.subjects.etcd.tools import KNOWLEDGE as ETCD
from operator_sre.subjects.ratelimiter.tools import KNOWLEDGE as RATELIMITER
from tests.contract.servers import unused_port

pytestmark = pytest.mark.asyncio

KINDS: Mapping[str, str] = {"etcd": "member", "ratelimiter": "node"}
subjects = pytest.mark.parametrize("subject", KINDS)


async def _rotate_log(subject: str, target: Target, name: str = "one") -> Result:
    build = find_plugin(subject).tools
    assert build is not None
    settings = SubjectSettings("shop", lambda: [target], SystemClock(), 1.0, {})
    tool = next(one for one in build(settings) if one.spec.name == "rotate_log")
    return await tool.call({"target": name}, Job("job"))


def _kept(result: Result, log: Path) -> str:
    assert result.ok, result.stderr
    return gzip.decompress(log.with_name(str(result.data["copy"])).read_bytes()).decode()


@subjects
async def test_all_of_it_is_kept_and_its_writer_goes_on(subject: str, tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    with unused_port() as port, log.open("a") as writer:
        log.chmod(0o600)
        target = Target("one", KINDS[subject], port=port, log=str(log))
        for number in range(5):
            writer.write(f"line {number}\n" * 1000)
            writer.flush()
            result = await _rotate_log(subject, target)
            assert _kept(result, log) == f"line {number}\n" * 1000
            assert (log.stat().st_size, result.data["before_bytes"]) == (0, 7000)
        writer.write("after\n")
        writer.flush()
    assert log.read_text() == "after\n"
    copies = sorted(one for one in tmp_path.iterdir() if one != log)
    assert [one.name for one in copies] == [f"one.log.{number}.gz" for number in (1, 2, 3)]
    assert [gzip.decompress(one.read_bytes())[:6] for one in copies] == [
        *(b"line 4", b"line 3", b"line 2")
    ]
    assert {one.stat().st_mode & 0o777 for one in copies} == {0o600}


@subjects
async def test_what_cannot_be_rotated_is_refused_and_left(subject: str, tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_text("all of it")
    with unused_port() as port:
        here = Target("one", KINDS[subject], port=port, log=str(log))
        for target in (
            replace(here, runs_at="far"),
            replace(here, log=""),
            replace(here, log=str(tmp_path / "none.log")),
        ):
            result = await _rotate_log(subject, target)
            assert (result.ok, len(result.stderr.splitlines())) == (False, 1), target
        assert not (await _rotate_log(subject, here, name="other")).ok
    assert log.read_text() == "all of it"
    assert [one.name for one in tmp_path.iterdir()] == ["one.log"]


async def test_it_is_said_to_be_of_little_risk_and_to_end_a_long_log() -> None:
    for knowledge in (ETCD, RATELIMITER):
        spec = knowledge.tools["rotate_log"]
        assert (spec.risk, spec.changes, spec.ends) == (Risk.LOW, True, ("log_long",))

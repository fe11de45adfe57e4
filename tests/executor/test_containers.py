"""Containers of a home are ended through the docker command, which may be away or hang."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from operator_sre.executor.containers import ANSWER_S_MAX, LABEL, ContainersEnded, end_containers

pytestmark = pytest.mark.asyncio


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a docker command that the test writes; there is no other."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "docker"


def _write(path: Path, script: str) -> None:
    path.write_text(f'#!/bin/sh\necho "$@" >> {path}.log\n{script}\n')
    path.chmod(0o755)


async def test_without_docker_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await end_containers("home") == ContainersEnded(note="docker is not installed")


async def test_those_with_the_label_of_the_home_are_removed(docker: Path) -> None:
    _write(docker, 'test "$1" = ps && printf "aaa\\nbbb\\n"; true')
    assert await end_containers("home-1") == ContainersEnded(ended=("aaa", "bbb"))
    listed, removed = Path(f"{docker}.log").read_text().splitlines()
    assert listed == f"ps --quiet --filter label={LABEL}=home-1"
    assert removed == "rm --force aaa bbb"


async def test_no_containers_are_nothing_to_remove(docker: Path) -> None:
    _write(docker, "true")
    assert await end_containers("home") == ContainersEnded()


@pytest.mark.parametrize("script", ["exit 1", "sleep 60"])
async def test_a_docker_that_does_not_answer_is_not_waited_for(docker: Path, script: str) -> None:
    _write(docker, script)
    begun = time.monotonic()
    assert (await end_containers("home")).note == "docker did not answer"
    assert time.monotonic() - begun < ANSWER_S_MAX


async def test_containers_that_stay_are_named(docker: Path) -> None:
    _write(docker, 'test "$1" = ps && echo aaa')
    assert (await end_containers("home")).note == "docker did not end aaa"

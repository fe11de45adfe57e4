"""The processes of trials: one loads ahead, and none is left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from operator_evals.app import trial_process
from operator_evals.app.trial_process import Child, Children
from operator_evals.app.trial_rig import Job
from operator_evals.campaign import Campaign, Control, Planned, Scenario, Variant
from operator_protocols.errors import RigError


def _job(folder: Path) -> Job:
    scenario = Scenario("etcd", Control.NOTHING.value)
    campaign = Campaign("c", (scenario,), (Variant("none"),), {})
    planned = Planned(scenario, "none", 0)
    return Job(campaign, planned, str(folder / "t"), str(folder / "ledger"), ("operator",), 0.0)


def _is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


@pytest.mark.asyncio
async def test_the_next_process_loads_ahead_and_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    born: list[Child] = []
    make = trial_process._start_child

    async def noted(folder: Path) -> Child:
        born.append(await make(folder))
        return born[-1]

    monkeypatch.setattr(trial_process, "_start_child", noted)
    # It reads what it is told, as a trial does, says it again, and leaves no facts.
    stub = tmp_path / "stub"
    stub.write_text('#!/bin/sh\nread -r told && echo "$told"\nexit 7\n')
    stub.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(stub))
    folder = tmp_path / "trials"
    folder.mkdir()
    async with Children(folder) as family:
        with pytest.raises(RigError, match=r"ended with 7: .*ledger"):
            await family.run(_job(folder))
        assert not _is_there(born[0].process.pid)
        with pytest.raises(RigError):
            await family.run(_job(folder))
        assert len({one.process.pid for one in born}) == 3, "each trial had its own, and one waits"
    assert not any(_is_there(one.process.pid) for one in born)
    assert list(folder.iterdir()) == []

"""Trials for real: a rig, a fault, the operator in processes of its own, and its ledger after."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from operator_evals.app.campaigns import Wanted, campaign_of, run_campaign
from operator_evals.app.views import (
    analysis_of,
    campaigns_in,
    compare_all,
    compare_two,
    compare_with_baseline,
    every_scenario,
    export_campaign,
    load_campaign,
    load_trial,
)
from operator_evals.campaign import BUILT_IN, Campaign, Control, Scenario, Variant, variant_from
from operator_evals.conductor import Progress
from operator_evals.facts import TrialState
from operator_protocols.domain.action import digest_of
from operator_sre.app.audit import verify_bundle
from operator_sre.config import Config, load_config
from tests.processes.waiting import eventually

COMMAND = (sys.executable, "-P", "-c", "from operator_sre.faces.cli.main import main; main()")
LIE = [{"reasoning": "It is over.", "calls": [{"call": "finish", "with": {"summary": "Done."}}]}]


def _config(home: Path) -> Config:
    return load_config(flags={"home": str(home)}, environ={}, cwd=home)


def _campaign(name: str, *variants: Variant) -> Campaign:
    made = campaign_of(Wanted("etcd", "node_kill", name=name))
    return replace(
        made,
        variants=variants,
        seeds={one.name: 1 for one in variants},
        parallel=len(variants),
        interval_s=1.0,
        stable_s=1.0,
        hold_s=1.5,
        end_s_max=40.0,
    )


def _place(home: Path) -> str:
    """What the folder of the campaign that is killed is called by."""
    return digest_of([str((home / "eval.db").absolute()), "killed"]).removeprefix("sha256:")[:10]


def _ours(home: Path) -> list[int]:
    """The processes that have a folder of a trial of this home in their words."""
    place = _place(home)
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if place.encode() in words:
            found.append(int(folder.name))
    return found


@pytest.mark.asyncio
async def test_a_real_trial_is_detected_repaired_and_told_in_full(tmp_path: Path) -> None:
    said: list[Progress] = []
    campaign = _campaign("real", BUILT_IN["reasoner"])
    begun = time.monotonic()
    outcome = await run_campaign(_config(tmp_path), campaign, command=COMMAND, tell=said.append)
    where = tmp_path / "eval.db"
    view, (one,) = load_campaign(where, "real")
    facts, score = one.facts, one.score
    assert (outcome.done, outcome.failed, outcome.invalid) == (1, 0, 0), facts.why
    assert (facts.state, facts.still, facts.still_after_hold) == (TrialState.DONE, "", "")
    assert score.detected
    assert score.end_to_end
    assert score.harm == ()
    assert facts.before is not None
    assert facts.after is not None
    assert facts.course
    assert any(command.changes and command.ran and command.inside for command in facts.commands)
    assert facts.proofs[-1].held
    assert facts.turns > 0
    assert facts.acknowledged > 0  # by members that were up, while one was down
    assert (facts.lost, facts.unread) == (0, 0)
    # What is promised is in benchmarks: a machine may be busy.
    assert 0 < facts.overhead_s < (time.monotonic() - begun) / 2
    report = verify_bundle(where.parent / facts.ledger, key="", progress=lambda done: None)
    assert report.damages == ()
    assert (view.done, view.trials) == (1, 1)
    assert campaigns_in(where) == [view]
    assert load_trial(where, "real", facts.key) == one
    assert analysis_of(where, None) == analysis_of(where, "real")
    assert export_campaign(where, None, "json") == export_campaign(where, "real", "json")
    assert facts.key in export_campaign(where, None, "csv")
    assert compare_all(where, None) == []
    assert said[-1].done == said[-1].of == 1
    again = await run_campaign(_config(tmp_path), campaign, command=COMMAND, tell=said.append)
    assert (again.before, again.done) == (1, 0)
    assert every_scenario("etcd")


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_part_that_is_no_process_belongs_to_the_subject(tmp_path: Path) -> None:
    found = campaign_of(Wanted("etcd", "quota_reached", name="whole"))
    campaign = replace(_campaign("whole", BUILT_IN["reasoner"]), scenarios=found.scenarios)
    await run_campaign(_config(tmp_path), campaign, command=COMMAND, tell=lambda said: None)
    _, (one,) = load_campaign(tmp_path / "eval.db", "whole")
    assert one.facts.state is TrialState.DONE, one.facts.why
    changed = [each for each in one.facts.commands if each.changes and each.ran]
    assert "cluster" in {each.target for each in changed}
    assert one.score.harm == ()


@pytest.mark.slow
@pytest.mark.asyncio
async def test_minds_that_lie_or_know_nothing_get_no_credit_and_the_one_that_knows_all_of_it(
    tmp_path: Path,
) -> None:
    script = tmp_path / "lie.json"
    script.write_text(json.dumps(LIE))
    liar = variant_from({"name": "liar", "transcript": str(script)}, "here")
    variants = (liar, BUILT_IN["none"], BUILT_IN["oracle"], BUILT_IN["restart-everything"])
    campaign = replace(_campaign("minds", *variants), parallel=2, end_s_max=25.0)
    await run_campaign(_config(tmp_path), campaign, command=COMMAND, tell=lambda said: None)
    where = tmp_path / "eval.db"
    _, trials = load_campaign(where, "minds")
    worth = {one.facts.variant: one for one in trials}
    for name in ("liar", "none"):
        assert worth[name].facts.state is TrialState.DONE, worth[name].facts.why
        assert not worth[name].score.ended_right
        assert not worth[name].score.end_to_end
    assert worth["oracle"].score.end_to_end
    assert not worth["restart-everything"].score.cause_right
    assert worth["restart-everything"].score.commands >= 1
    against = {one.second: one for one in compare_with_baseline(where, None)}
    assert against["oracle"].ended_right == (0, 1)
    assert compare_two(where, "none", "oracle", campaign="minds") == against["oracle"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.asyncio
async def test_only_who_looks_first_repairs_nothing_where_nothing_is_broken(tmp_path: Path) -> None:
    hasty = BUILT_IN["restart-everything"]
    made = _campaign("controls", BUILT_IN["reasoner"], hasty)
    scenarios = tuple(Scenario("etcd", one.value) for one in Control)
    campaign = replace(made, scenarios=scenarios, control_s=8.0, parallel=2)
    await run_campaign(_config(tmp_path), campaign, command=COMMAND, tell=lambda said: None)
    _, trials = load_campaign(tmp_path / "eval.db", "controls")
    assert len(trials) == 2 * len(Control)
    for one in trials:
        facts, expected = one.facts, one.facts.scenario.has_ticket
        assert (facts.state, facts.why, bool(facts.tickets)) == (TrialState.DONE, "", expected)
        misled = facts.variant == hasty.name and facts.scenario.fault == Control.MISLEADING
        assert (one.score.false_repair, one.score.ended_right) == (misled, not misled), facts.key


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_coordinator_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    words = ("eval", "run", "--subject", "etcd", "--fault", "node_kill", "--name", "killed")
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "--home", str(tmp_path), *words, "--variant", "none"),
        stdout=nowhere,
        stderr=nowhere,
    )
    try:
        await eventually(lambda: len(_ours(tmp_path)) >= 4, within_s=60)
    finally:
        process.kill()
        await process.wait()
    await eventually(lambda: not _ours(tmp_path), within_s=60)
    folders, name = Path(tempfile.gettempdir()), f"operator-eval-*-{_place(tmp_path)}"
    await eventually(lambda: not list(folders.glob(name)), within_s=60)
    assert campaigns_in(tmp_path / "eval.db")[0].done == 0

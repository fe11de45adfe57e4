"""Cases add up over several sittings at one revision, and are published as one file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operator_evals.app.generated import (
    Ending,
    Judged,
    Sitting,
    Wanted,
    export_generated,
    load_generated,
    run_generated,
    shrink_generated,
)
from operator_evals.app.trial_process import Children
from operator_evals.app.trial_rig import Job
from operator_evals.campaign import Mind
from operator_evals.conductor import Progress
from operator_evals.database import Generated, open_database
from operator_evals.facts import TrialFacts, TrialState
from operator_evals.generated.case import Case, Injection
from operator_evals.generated.observed import Injected
from operator_evals.generated.published import publish_generated, read_generated
from operator_protocols.errors import ConfigError, NotFoundError, StoreError
from operator_sre.config import load_config
from tests.evals.generated.generated_samples import look, primitive, trial
from tests.evals.generated.test_outcome import DOWN, REPAIRED, STILL, USEFUL

MISSED = trial(DOWN, STILL)
OLD, NEW = {"revision": "a" * 40}, {"revision": "b" * 40}


def _fill(path: Path) -> None:
    with open_database(path) as database:
        assert database.read_generated("shop", None) == []
        database.keep_generated(replace(REPAIRED, seed=1, key="1"), OLD)
        database.keep_generated(replace(USEFUL, seed=2, key="2"), NEW)
        database.keep_generated(replace(trial(look(10.5, 60.0)), seed=3, key="3"), NEW)
    with open_database(path) as database:  # a later sitting
        database.keep_generated(replace(REPAIRED, seed=4, key="4"), NEW)
        database.keep_generated(replace(USEFUL, seed=3, key="3"), NEW)


def test_cases_of_one_revision_add_up_and_others_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "eval.db"
    _fill(path)
    found = load_generated(path, "shop", "reasoner")
    assert isinstance(found, Sitting)
    assert [each.facts.seed for each in found.judged] == [2, 3, 4]
    assert (found.tally.handled.count, found.tally.trials) == (3, 3)
    assert found.machine == NEW
    older = load_generated(path, "shop", "reasoner", revision=OLD["revision"])
    assert [each.facts.seed for each in older.judged] == [1]
    with pytest.raises(NotFoundError, match="No generated fault"):
        load_generated(path, "till", "reasoner")
    with pytest.raises(NotFoundError, match="No generated fault"):
        load_generated(tmp_path / "none.db", "shop", "reasoner")


def test_a_published_file_says_the_same_as_the_database(tmp_path: Path) -> None:
    path, published = tmp_path / "eval.db", tmp_path / "shop.jsonl"
    _fill(path)
    published.write_text(export_generated(path, "shop"), encoding="utf-8")
    again = read_generated(published)
    assert publish_generated(again) == published.read_text(encoding="utf-8")
    assert all(isinstance(each, Generated) for each in again)
    found = load_generated(tmp_path, "shop", "reasoner")
    assert found.tally == load_generated(path, "shop", "reasoner").tally
    published.write_text("{}\n", encoding="utf-8")
    with pytest.raises(StoreError, match="does not hold"):
        read_generated(published)


@pytest.mark.asyncio
async def test_a_variant_may_be_named_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.toml"
    file.write_text('name = "mine"\nmind = "random"\n', encoding="utf-8")
    asked: list[Job] = []

    async def answer(self: Children, job: Job) -> TrialFacts:
        asked.append(job)
        return replace(REPAIRED, key=job.planned.key, variant=job.variant.name)

    monkeypatch.setattr(Children, "run", answer)
    monkeypatch.setattr("operator_evals.app.generated.check_rig", lambda plugin: None)
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    wanted = Wanted("etcd", 2, 1, str(file))
    done = await run_generated(config, wanted, command=("none",), tell=lambda *words: None)
    assert (done.done, done.failed) == (2, 0)
    assert {(job.variant.mind, job.staged) for job in asked} == {(Mind.RANDOM, True)}
    found = load_generated(tmp_path / "eval.db", "shop", str(file))
    assert (found.tally.variant, found.tally.trials) == ("mine", 2)
    refused = Wanted("etcd", 1, 1, "paid.toml")
    (tmp_path / "paid.toml").write_text('mind = "model"\nmodel = "claude"\n', encoding="utf-8")
    monkeypatch.setattr("operator_evals.app.campaigns.key_state", lambda *words: "set")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="costs money"):
        await run_generated(config, refused, command=("none",), tell=lambda *words: None)


@pytest.mark.asyncio
async def test_void_cases_run_once_more_one_at_a_time_and_stay_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = replace(REPAIRED, state=TrialState.INVALID, why="the machine was too busy")
    refused = replace(trial(refused="RigError: it names no port"))
    tries: dict[int, list[TrialFacts]] = {
        1: [USEFUL],
        2: [busy, REPAIRED],  # the second time there is a processor for it
        3: [busy, busy, REPAIRED],
        4: [refused, refused],
    }
    at_once: list[int] = []
    running = 0

    async def answer(self: Children, job: Job) -> TrialFacts:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        at_once.append(running)
        running -= 1
        seed = job.planned.seed
        return replace(tries[seed].pop(0), key=job.planned.key, seed=seed)

    monkeypatch.setattr(Children, "run", answer)
    monkeypatch.setattr("operator_evals.app.generated.check_rig", lambda plugin: None)
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    done = await run_generated(
        config, Wanted("etcd", 4, 1, workers=4), command=("none",), tell=lambda *words: None
    )
    assert (done.done, done.invalid, done.failed) == (4, 1, 0)
    assert {seed: len(left) for seed, left in tries.items()} == {1: 0, 2: 0, 3: 1, 4: 0}
    assert at_once[:4] == [4, 3, 2, 1]
    assert at_once[4:] == [1, 1, 1]
    found = load_generated(tmp_path / "eval.db", "shop", "reasoner").tally
    assert (found.trials, found.void, found.handled.count) == (2, 2, 2)
    assert [(each.seed, each.why) for each in found.void_cases] == [
        (3, ("the machine was too busy",)),
        (4, ("RigError: it names no port",)),
    ]


@pytest.mark.asyncio
async def test_a_later_sitting_runs_only_what_is_missing_and_counts_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    async def answer(self: Children, job: Job) -> TrialFacts:
        planned = job.planned
        ran.append(planned.seed)
        if planned.seed == 3 and len(ran) == 3:
            sitting.cancel()  # as Ctrl-C does
            await asyncio.Event().wait()
        return replace(REPAIRED, key=planned.key, scenario=planned.scenario, seed=planned.seed)

    monkeypatch.setattr(Children, "run", answer)
    monkeypatch.setattr("operator_evals.app.generated.check_rig", lambda plugin: None)
    monkeypatch.setattr("operator_evals.app.generated.ahead_of", lambda workers: 0)
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    words: dict[str, Any] = {"command": ("none",), "tell": lambda *words: None}
    sitting = asyncio.ensure_future(run_generated(config, Wanted("etcd", 4), **words))
    with pytest.raises(asyncio.CancelledError):
        await sitting
    assert ran == [1, 2, 3]
    done = await run_generated(config, Wanted("etcd", 4), **words)
    assert ran == [1, 2, 3, 3, 4]
    assert (done.before, done.done) == (2, 2)
    assert load_generated(tmp_path / "eval.db", "etcd", "reasoner").tally.trials == 4


@pytest.mark.asyncio
async def test_a_damage_is_reported_only_after_the_comparison_without_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = replace(REPAIRED, lost=3)
    alone = replace(REPAIRED, variant="none", commands=(), tickets=())
    busy = replace(alone, state=TrialState.INVALID, why="the machine was too busy")
    without = {1: [busy, replace(alone, lost=3)], 2: [alone]}

    async def answer(self: Children, job: Job) -> TrialFacts:
        seed = job.planned.seed
        facts = without[seed].pop(0) if job.variant.mind is Mind.NONE else damaged
        return replace(facts, key=job.planned.key, seed=seed)

    monkeypatch.setattr(Children, "run", answer)
    monkeypatch.setattr("operator_evals.app.generated.check_rig", lambda plugin: None)
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    reported: list[tuple[int, Ending]] = []

    def tell(progress: Progress, ending: Ending | None) -> None:
        assert (ending is None) == (progress.last is None)
        if progress.last is not None and ending is not None:
            reported.append((progress.last.seed, ending))

    await run_generated(config, Wanted("etcd", 2), command=("none",), tell=tell)
    # Without an agent the first case loses as much, once it could be measured.
    assert sorted(reported) == [(1, Ending.REPAIRED), (2, Ending.HARM)]
    assert without == {1: [], 2: []}
    found = load_generated(tmp_path / "eval.db", "shop", "reasoner")
    assert [each.judgement.outcome for each in found.judged] == [Ending.REPAIRED, Ending.HARM]


@pytest.mark.asyncio
async def test_a_failing_case_shrinks_to_the_primitive_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed, other, third = (Injection(primitive(target=name)) for name in ("till-2", "a", "b"))
    whole = Case("shop", 1, (other, replace(needed, after_s=4.0), third))
    ran: list[Case] = []

    async def answer(self: Children, job: Job) -> TrialFacts:
        case = job.case or whole
        ran.append(case)
        fails = any(each.primitive == needed.primitive for each in case.injections)
        facts = MISSED if fails else REPAIRED
        injected = tuple(Injected(number, 10.0) for number in range(len(case.injections)))
        assert facts.generated is not None
        seen = replace(facts.generated, case=case, injected=injected)
        if len(ran) == 2:  # the first smaller case is not measured at its first try
            facts = replace(facts, state=TrialState.INVALID, why="the machine was too busy")
        planned = job.planned
        return replace(facts, key=planned.key, scenario=planned.scenario, seed=1, generated=seen)

    monkeypatch.setattr(Children, "run", answer)
    monkeypatch.setattr("operator_evals.app.generated.check_rig", lambda plugin: None)
    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    wanted = Wanted("etcd")
    with pytest.raises(NotFoundError, match="was not run"):
        await shrink_generated(config, wanted, command=("none",), tell=lambda line: None)
    await run_generated(config, wanted, command=("none",), tell=lambda *words: None)
    lines: list[str] = []
    case, ending = await shrink_generated(config, wanted, command=("none",), tell=lines.append)
    assert (case.injections, ending) == ((needed,), Ending.MISSED)
    assert len(lines) == len(ran) - 1, "every try is reported"
    assert lines[0].startswith("void: ")
    assert "void" not in lines[1]


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_real_product_is_worse_when_it_restarts_without_looking(tmp_path: Path) -> None:
    from operator_lab.cli.demo import this_program

    config = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    harm = {}
    for variant in ("reasoner", "restart-everything"):
        # The cases in which every trial so far opened a ticket.
        wanted = Wanted("etcd", 4, 1, variant, workers=2)
        done = await run_generated(config, wanted, command=this_program(), tell=lambda *words: None)
        assert (done.done, done.failed) == (4, 0)
        found = load_generated(tmp_path / "eval.db", "etcd", variant)
        harm[variant] = [each for each in found.judged if each.judgement.outcome is Ending.HARM]
    assert len(harm["restart-everything"]) > len(harm["reasoner"])
    worst: Judged = harm["restart-everything"][0]
    case, ending = await shrink_generated(
        config,
        Wanted("etcd", 1, worst.facts.seed, "restart-everything"),
        command=this_program(),
        tell=lambda line: None,
    )
    assert ending is Ending.HARM
    assert len(case.injections) <= len(worst.case.injections)
    assert all(isinstance(each, Injection) for each in case.injections)

"""What travels between who leads and who does: whole, bounded, and never another trial's."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from operator_evals.app import worker
from operator_evals.app.worker import Order, Turns, order_from, order_of, pack_result, unpack_result
from operator_evals.campaign import Campaign, Mind, Planned, Scenario, Variant
from operator_evals.campaign_file import plan_trials
from operator_evals.facts import Snapshot, TrialFacts, TrialState
from operator_protocols.errors import RigError, UsageError
from operator_protocols.ports import CorrectOutcome
from operator_sre.codec import to_json

FAULTS = tuple(Scenario("shop", f"f{n}", CorrectOutcome.MITIGATED, ("answers",)) for n in range(3))
VARIANTS = (Variant("reasoner", settings={"runs_max": "1"}), Variant("none", Mind.NONE))
CAMPAIGN = Campaign("c", FAULTS, VARIANTS, {"reasoner": 2, "none": 2}, noise=("shop:f0",))
ONE = Planned(FAULTS[1], "none", 1)
FACTS = TrialFacts("c", ONE.key, ONE.scenario, ONE.variant, ONE.seed, TrialState.DONE)


def test_an_order_holds_its_trial_and_nothing_of_the_others() -> None:
    order = order_from(order_of(CAMPAIGN, ONE))
    assert plan_trials(order.campaign) == (order.planned,) == (ONE,)
    assert order.campaign.noise == CAMPAIGN.noise
    assert "reasoner" not in order_of(CAMPAIGN, ONE)
    for text in ("", "{", "{}", '{"campaign": 1}'):
        with pytest.raises(RigError, match="cannot be read"):
            order_from(text)


def test_a_transcript_travels_with_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "said.json"
    variant = Variant("none", Mind.TRANSCRIPT, transcript=str(script))
    campaign = replace(CAMPAIGN, variants=(variant,), seeds={"none": 2})
    with pytest.raises(UsageError, match="cannot be read"):
        order_of(campaign, ONE)
    script.write_text('[{"reasoning": "so be it"}]')
    order = order_from(order_of(campaign, ONE))
    assert isinstance(order, Order)
    assert order.transcript == script.read_text()
    monkeypatch.setattr(worker, "TRANSCRIPT_BYTES_MAX", 5)
    with pytest.raises(UsageError, match="larger than 5 bytes"):
        order_of(campaign, ONE)


def _back(text: str, tmp_path: Path) -> TrialFacts:
    return unpack_result(text, "c", ONE, tmp_path / "kept" / "one.bundle", "kept/one.bundle")


def test_facts_and_ledger_come_back_whole(tmp_path: Path) -> None:
    bundle = tmp_path / "own.bundle"
    bundle.write_bytes(bytes(range(256)))
    facts = replace(FACTS, ledger="ledgers/own/x.bundle")
    assert _back(pack_result(facts, bundle), tmp_path) == replace(facts, ledger="kept/one.bundle")
    assert (tmp_path / "kept" / "one.bundle").read_bytes() == bytes(range(256))
    assert _back(pack_result(FACTS, bundle), tmp_path).ledger == "", "there was none to send"


def test_what_is_too_large_stays_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "own.bundle"
    bundle.write_bytes(bytes(3 << 20))
    monkeypatch.setattr(worker, "LEDGER_BYTES_MAX", 1 << 20)
    back = _back(pack_result(replace(FACTS, ledger="x/y/z", why="so"), bundle), tmp_path)
    assert back.ledger == ""
    assert back.why == "so; its ledger stayed where it was: with 3 MB it is too large to send"
    assert not (tmp_path / "kept").exists()
    monkeypatch.setattr(worker, "FACTS_BYTES_MAX", 5_000)
    looks = tuple(Snapshot(float(at), {"till-1": {"queued": at}}) for at in range(200))
    assert _back(
        pack_result(replace(FACTS, course=looks, hit="till-1"), bundle), tmp_path
    ) == replace(FACTS, hit="till-1")
    with pytest.raises(RigError, match="too large to send"):
        pack_result(replace(FACTS, why="x" * 9_000), bundle)
    with pytest.raises(RigError, match="too large"):
        _back("x" * (6_000 + (2 << 20)), tmp_path)


def test_what_is_not_the_trial_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    others = [
        replace(FACTS, campaign="d"),
        replace(FACTS, key="shop:f0/none/1"),
        replace(FACTS, scenario=replace(ONE.scenario, truths=("anything@any",))),
    ]
    for facts in others:
        with pytest.raises(RigError, match="another trial"):
            _back(pack_result(facts, tmp_path), tmp_path)
    broken = json.dumps({"facts": to_json(FACTS), "ledger": "?"})
    for text in ("nonsense", "[]", broken):
        with pytest.raises(RigError, match="cannot be read"):
            _back(text, tmp_path)


@pytest.mark.asyncio
async def test_turns_let_so_many_in_and_one_that_is_alone_by_itself() -> None:
    turns, running, most, beside = Turns(3), set[str](), 0, 0

    async def one(name: str, *, alone: bool) -> None:
        nonlocal most, beside
        async with turns.one(alone=alone):
            running.add(name)
            for _ in range(3):
                await asyncio.sleep(0)
                most = max(most, len(running))
                if any(each.startswith("alone") for each in running):
                    beside = max(beside, len(running))
            running.discard(name)

    names = ["a", "alone-1", "b", "c", "alone-2", "d", "e", "f", "g"]
    tasks = [asyncio.ensure_future(one(name, alone="alone" in name)) for name in names]
    await asyncio.sleep(0)
    tasks[1].cancel()  # who gives up while it waits holds nobody up
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (most, beside, running) == (3, 1, set())

"""Every built-in pack is read, holds on good values and breaks on bad ones by its own causes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_sre.app.packs import find_packs
from operator_sre.subjects.declarative.cause import see_causes
from operator_sre.subjects.declarative.description import Description, describe
from tests.contract.clock import NOON

PACKS = {pack.name: pack for pack in find_packs()}
RECORDED: Mapping[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "packs.yaml").read_text(encoding="utf-8")
)
CASES = [(name, bad) for name, held in RECORDED.items() for bad in held["bad"]]


def read(name: str) -> Description:
    return describe(PACKS[name].text.replace("@NAME@", "mine"), name)


def look(found: Description, values: Mapping[str, Value], kind: str = "") -> Observation:
    seen = [
        Seen(target.name, values if not kind or target.kind == kind else {})
        for target in found.targets
    ]
    return Observation("mine", NOON, tuple(seen))


def find_health(found: Description, seen: Observation, kind: str, *healths: Health) -> set[str]:
    """The invariants that are one of these at the targets of a kind."""
    names = {target.name for target in found.targets if not kind or target.kind == kind}
    return {
        one.invariant
        for each in found.invariants
        for one in each.check(seen)
        if one.target in names and one.health in healths
    }


def test_every_pack_has_recorded_values() -> None:
    assert set(RECORDED) == set(PACKS)
    for name in PACKS:
        found = read(name)
        shown = {word for bad in RECORDED[name]["bad"] for word in bad["breaks"]}
        assert shown == {each.name for each in found.invariants}, "each invariant is seen to break"


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_holds_on_good_values(name: str) -> None:
    found, recorded = read(name), RECORDED[name]
    assert recorded["good"]
    for kind, values in recorded["good"].items():
        kind = "" if kind == "all" else kind
        seen = look(found, values, kind)
        assert find_health(found, seen, kind, Health.BROKEN, Health.UNKNOWN) == set()


@pytest.mark.parametrize(("name", "bad"), CASES)
def test_a_pack_breaks_on_bad_values_by_the_right_cause(name: str, bad: dict[str, Any]) -> None:
    found, kind = read(name), bad.get("kind", "all")
    values = {**RECORDED[name]["good"][kind], **bad["values"]}
    values = {reading: value for reading, value in values.items() if value is not None}
    kind = "" if kind == "all" else kind
    observation = look(found, values, kind)
    assert find_health(found, observation, kind, Health.BROKEN) == set(bad["breaks"])
    if find_health(found, observation, kind, Health.UNKNOWN):
        assert any(value is False for name, value in values.items() if name.endswith(".up"))
    if cause := bad.get("cause"):
        (target, *_) = [one for one in found.targets if not kind or one.kind == kind]
        shown = see_causes(found.causes, target, observation, None)
        assert [each for each, is_shown in shown.items() if is_shown] == [f"cause.{cause}"]


def test_packs_run_nothing_by_themselves_but_what_names_its_cause() -> None:
    levers = [lever for name in PACKS for lever in read(name).levers]
    assert len(levers) >= 7
    for lever in levers:
        assert lever.risk != "low" or lever.is_tied, lever.name
        assert "wrong_answer" not in lever.ends

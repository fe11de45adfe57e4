"""The first prompt is short for every subject, and has what an agent needs to begin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import operator_sre.app
from operator_protocols.domain.budget import Budget
from operator_protocols.domain.change import Change
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Value, Violation
from operator_protocols.domain.run import Ask, Briefing, Comment, LogTail, Trend
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.models.fence import estimate_tokens
from operator_sre.models.offers import near_targets, offers, possible_causes
from operator_sre.models.prompt import conversation
from tests.app.home import opened
from tests.contract.clock import NOON

TOKENS_MAX = 6_000
# plug-in -> the kinds of its targets, the first of which is broken
SUBJECTS: Mapping[str, Sequence[str]] = {
    "aws": ("instance", "volume", "group"),
    "etcd": ("member", "member", "member"),
    "kafka": ("broker", "broker", "broker", "group", "producer"),
    "kubernetes": ("cluster",),
    "postgres": ("server", "server", "client"),
    "ratelimiter": ("store", "replica", *("sentinel",) * 3, *("node",) * 3),
    "tikv": ("pd", "pd", "pd", "store", "store", "store", "prometheus"),
}
OPTIONS = {"aws": 'options = { region = "eu-central-1" }'}
DESCRIPTIONS = {
    str(file.relative_to(descriptions)): file
    for descriptions in [Path(operator_sre.app.__path__[0]) / "descriptions"]
    for file in sorted(descriptions.rglob("*.yaml"))
}
LINE = "2026-11-19 06:44:46 [31787] LOG: checkpoint complete, wrote 12 buffers of the cache"


def _settings(folder: Path, subject: str) -> str:
    """The settings of a plug-in, or of a description."""
    if subject in DESCRIPTIONS:
        description = folder / "shop.yaml"
        description.write_text(DESCRIPTIONS[subject].read_text().replace("@NAME@", "shop"))
        return f'[subjects.shop]\nplugin = "declarative"\noptions = {{ file = "{description}" }}\n'
    toml = f'[subjects.shop]\nplugin = "{subject}"\n{OPTIONS.get(subject, "")}\n'
    for number, kind in enumerate(SUBJECTS[subject]):
        needs = 'depends_on = ["part-0"]' if number else ""
        toml += f"""[[subjects.shop.targets]]
name = "part-{number}"
kind = "{kind}"
port = {20_000 + number}
log = "/srv/shop/part-{number}/part-{number}.log"
data_dir = "/srv/shop/part-{number}/data"
{needs}
"""
    return toml


def _briefing(folder: Path, subject: str, *, others: Sequence[Target] = ()) -> Briefing:
    """As after half an hour of watching, with long readings and logs."""
    with opened(folder, _settings(folder, subject)) as app:
        controls = app.controls("shop")
        tools = tuple(tool.spec for tool in controls.executor.tools)
        targets = (*controls.subject.targets(), *others)
        causes, notes = tuple(controls.causes), controls.notes
    rig_tools = [
        ToolSpec(name, f"Makes a process {word}.", (), Risk.MEDIUM, changes=True)
        for name, word in (("restart_node", "start again"), ("resume_node", "run again"))
        if name not in {spec.name for spec in tools}
    ]
    first = targets[0].name
    readings: dict[str, Value] = {"kind": targets[0].kind, "reachable": True, "role": "replica"}
    readings |= {f"reading_number_{n}": 1000 + n if n % 2 else False for n in range(45)}
    broken = Violation(
        "shop", "part_down", first, Severity.CRITICAL, "127.0.0.1:20000: refused", NOON
    )
    ticket = Ticket(
        *(1, "shop", first, Severity.CRITICAL, TicketState.CLAIMED, f"{first} is down"),
        violations=(broken,),
        opened_at=NOON,
        changed_at=NOON,
    )
    return Briefing(
        ticket=ticket,
        targets=targets,
        observation=Observation("shop", NOON, tuple(Seen(one.name, readings) for one in targets)),
        health=Health.BROKEN,
        tools=(*rig_tools, *tools),
        causes=causes,
        notes=notes,
        observation_seq=5,
        trends=(
            *(Trend(first, f"reading_{n}", 40, 1.0, 2.5, 1.0, 2.5) for n in range(30)),
            *(Trend("part-1", f"flat_{n}", 40, 1.0, 1.0, 1.0, 1.0) for n in range(30)),
            Trend("part-1", "uptime_s", 40, 1.0, 9.0, 1.0, 9.0),
        ),
        logs=tuple(LogTail(one.name, (LINE,) * 50) for one in targets[:3]),
    )


def _count_tokens(briefing: Briefing) -> list[int]:
    """Of the system text, the briefing, the closing, and the tools as they go over the wire."""
    talk = conversation(Ask(briefing, (), Budget()))
    wire = [
        {"name": one.name, "description": one.sentence, "parameters": one.schema}
        for one in offers(briefing)
    ]
    texts = (talk.system, talk.opening, talk.closing, json.dumps(wire))
    return [estimate_tokens(text) for text in texts]


def test_every_plug_in_is_measured() -> None:
    ours = {entry.name for entry in entry_points(group="operator.subjects")}
    assert ours - {"redis"} == {*SUBJECTS, "declarative"}
    assert len(DESCRIPTIONS) > 10


@pytest.mark.parametrize("subject", [*SUBJECTS, *DESCRIPTIONS])
def test_it_has_under_6000_tokens(tmp_path: Path, subject: str) -> None:
    briefing = _briefing(tmp_path, subject)
    tokens = _count_tokens(briefing)
    assert sum(tokens) < TOKENS_MAX, tokens
    # Short, and still enough: what is broken, what it may be, how to resolve it, how to answer.
    talk, given = conversation(Ask(briefing, (), Budget())), offers(briefing)
    first = briefing.ticket.target
    assert f"part_down at {first}" in talk.opening
    assert '"reading_number_1":1001' in talk.opening
    possible = possible_causes(briefing)
    if subject != "kubernetes":  # it has more than a hundred; see below
        for cause in possible:
            assert cause.name in talk.opening, "a possible cause is not named"
    assert talk.opening.partition("of any system: ")[2].partition("\n")[0].count(", ") > 8
    names = {one.name for one in given}
    resolving = {remedy.tool for cause in possible for remedy in cause.remedies} & {
        spec.name for spec in briefing.tools
    }
    assert resolving <= names, "a tool that resolves a possible cause is not offered"
    assert {"shell", "diagnose", "finish", "escalate", "read_file"} <= names
    assert talk.system.count("diagnose(cause=") == 1


@pytest.mark.parametrize("subject", ["kafka", "kubernetes", "ratelimiter"])
def test_a_large_busy_system_has_no_longer_prompt(tmp_path: Path, subject: str) -> None:
    parts = [Target(f"shop/deployment/front-end-{n}", "deployment") for n in range(400)]
    plain = _briefing(tmp_path, subject, others=parts)
    numbers = {f"r{n}": 1_700_000_000_123 + n * 7_919 for n in range(300)}
    words = replace(
        plain,
        observation=Observation(
            "shop", NOON, tuple(Seen(one.name, dict(numbers)) for one in plain.targets)
        ),
        logs=tuple(LogTail(one.name, ("1 2 3 4 5 6 7 8 9 " * 20,) * 90) for one in plain.targets),
        changes=tuple(
            Change(one.name, "settings", "1234567890" * 9, "0987654321" * 9, NOON, "file")
            for one in plain.targets
        ),
        comments=tuple(Comment("ann", NOON, "é" * 900) for _ in range(9)),
        notes="Never 1-2-3-4. " * 900,
    )
    tokens = _count_tokens(words)
    assert sum(tokens) < TOKENS_MAX, tokens
    opening = conversation(Ask(words, (), Budget())).opening
    assert f"part_down at {plain.ticket.target}" in opening
    assert "of any system: " in opening
    names = {one.name for one in offers(words)}
    resolving = {remedy.tool for cause in possible_causes(words) for remedy in cause.remedies}
    assert resolving & {spec.name for spec in plain.tools} <= names, "names took their room"


def test_of_too_many_causes_those_that_fit_the_ticket_come_first(tmp_path: Path) -> None:
    parts = [Target("shop/deployment/front", "deployment")]
    plain = _briefing(tmp_path, "kubernetes", others=parts)
    assert len(plain.causes) > 60
    front = "shop/deployment/front"
    broken = replace(plain.ticket.violations[0], invariant="jobs_succeed", target=front)
    last = plain.causes[-1]
    briefing = replace(
        plain,
        ticket=replace(plain.ticket, target=front, violations=(broken,)),
        observation=Observation("shop", NOON, (Seen(front, dict(last.shows)),)),
    )
    opening = conversation(Ask(briefing, (), Budget())).opening
    lines = opening.partition("Known causes")[2].splitlines()
    assert lines[2].startswith(f"- {last.name}"), "the observation shows it"
    assert last.sentence in lines[2]
    assert "job_failed" in opening
    assert "job_deadline" in opening
    assert " more" in lines[-1] or " more" in opening, "what is left out is counted"


def test_a_system_without_causes_of_its_own_has_the_causes_of_any_system(tmp_path: Path) -> None:
    bare = replace(_briefing(tmp_path, "etcd"), causes=())
    opening = conversation(Ask(bare, (), Budget())).opening
    assert "of any system: " in opening
    assert "process_dead" in opening


def test_only_tools_that_can_work_here_are_offered(tmp_path: Path) -> None:
    briefing = _briefing(tmp_path, "etcd")
    assert "docker_restart" in {spec.name for spec in briefing.tools}
    assert not [one.name for one in offers(briefing) if one.name.startswith("docker_")]
    boxed = [Target(one.name, one.kind, runs_at="docker://x") for one in briefing.targets]
    inside = Briefing(
        *(briefing.ticket, tuple(boxed), briefing.observation, Health.BROKEN),
        tools=briefing.tools,
        causes=briefing.causes,
    )
    assert "docker_restart" in {one.name for one in offers(inside)}


def test_only_readings_that_moved_are_told(tmp_path: Path) -> None:
    opening = conversation(Ask(_briefing(tmp_path, "etcd"), (), Budget())).opening
    assert "part-0 reading_1: 1 -> 2.5" in opening
    assert "flat_" not in opening
    assert "uptime_s" not in opening


def test_causes_of_other_kinds_are_left_out(tmp_path: Path) -> None:
    briefing = _briefing(tmp_path, "ratelimiter")
    assert near_targets(briefing) == {"part-0"}
    names = {cause.name for cause in possible_causes(briefing)}
    assert "store_out_of_memory" in names
    assert "drained_and_forgotten" not in names  # only nodes are drained
    assert "overloaded" in names

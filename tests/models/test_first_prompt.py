"""The first prompt is short for every subject, and has what an agent needs to begin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operator_protocols.domain.budget import Budget
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Value, Violation
from operator_protocols.domain.run import Ask, Briefing, LogTail, Trend
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
SUBJECTS = {
    "etcd": ("member", "member", "member"),
    "postgres": ("server", "server", "client"),
    "ratelimiter": ("store", "replica", *("sentinel",) * 3, *("node",) * 3),
    "tikv": ("pd", "pd", "pd", "store", "store", "store", "prometheus"),
}


def _briefing(folder: Path, plugin: str) -> Briefing:
    """As after half an hour of watching, with long readings and logs."""
    kinds = SUBJECTS[plugin]
    toml = f'[subjects.shop]\nplugin = "{plugin}"\n'
    for number, kind in enumerate(kinds):
        needs = 'depends_on = ["part-0"]' if number else ""
        toml += f"""[[subjects.shop.targets]]
name = "part-{number}"
kind = "{kind}"
port = {20_000 + number}
log = "/srv/shop/part-{number}/part-{number}.log"
data_dir = "/srv/shop/part-{number}/data"
{needs}
"""
    with opened(folder, toml) as app:
        controls = app.controls("shop")
        tools = tuple(tool.spec for tool in controls.executor.tools)
        targets = tuple(controls.subject.targets())
        causes, notes = tuple(controls.causes), controls.notes
    rig_tools = [
        ToolSpec(name, f"Makes a process {word}.", (), Risk.MEDIUM, changes=True)
        for name, word in (("restart_node", "start again"), ("resume_node", "run again"))
        if name not in {spec.name for spec in tools}
    ]
    readings: dict[str, Value] = {"kind": kinds[0], "reachable": True, "role": "replica"}
    readings |= {f"reading_number_{n}": 1000 + n if n % 2 else False for n in range(45)}
    broken = Violation(
        "shop", "part_down", "part-0", Severity.CRITICAL, "127.0.0.1:20000: refused", NOON
    )
    ticket = Ticket(
        *(1, "shop", "part-0", Severity.CRITICAL, TicketState.CLAIMED, "part-0 is down"),
        violations=(broken,),
        opened_at=NOON,
        changed_at=NOON,
    )
    line = "2026-11-19 06:44:46 [31787] LOG: checkpoint complete, wrote 12 buffers of the cache"
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
            *(Trend("part-0", f"reading_{n}", 40, 1.0, 2.5, 1.0, 2.5) for n in range(30)),
            *(Trend("part-1", f"flat_{n}", 40, 1.0, 1.0, 1.0, 1.0) for n in range(30)),
            Trend("part-1", "uptime_s", 40, 1.0, 9.0, 1.0, 9.0),
        ),
        logs=tuple(LogTail(f"part-{n}", (line,) * 50) for n in range(3)),
    )


@pytest.mark.parametrize("plugin", sorted(SUBJECTS))
def test_it_has_under_6000_tokens(tmp_path: Path, plugin: str) -> None:
    briefing = _briefing(tmp_path, plugin)
    talk = conversation(Ask(briefing, (), Budget()))
    given = offers(briefing)
    wire = [
        {"name": one.name, "description": one.sentence, "parameters": one.schema} for one in given
    ]
    texts = (talk.system, talk.opening, talk.closing, json.dumps(wire))
    tokens = [estimate_tokens(text) for text in texts]
    assert sum(tokens) < TOKENS_MAX, tokens
    # Short, and still enough: what is broken, what it may be, how to resolve it, how to answer.
    assert "part_down at part-0" in talk.opening
    assert '"reading_number_1":1001' in talk.opening
    for cause in possible_causes(briefing):
        assert cause.name in talk.opening, "a possible cause is not named"
    assert "of any system: " in talk.opening
    names = {one.name for one in given}
    resolving = {
        remedy.tool for cause in possible_causes(briefing) for remedy in cause.remedies
    } & {spec.name for spec in briefing.tools}
    assert resolving <= names, "a tool that resolves a possible cause is not offered"
    assert {"shell", "diagnose", "finish", "escalate", "read_file"} <= names
    assert talk.system.count("diagnose(cause=") == 1


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

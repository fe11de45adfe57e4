"""Causes of a description: named by invariants, shown by evidence, and ended by levers."""

from __future__ import annotations

from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.errors import ConfigError
from operator_sre.models.reasoner.causes import GENERIC, VAGUE
from operator_sre.subjects.declarative.cause import SHARED
from operator_sre.subjects.declarative.description import describe
from operator_sre.subjects.declarative.lever import VAGUE as NO_REASON
from operator_sre.subjects.declarative.subject import KNOWLEDGE
from operator_sre.subjects.declarative.symptom import SYMPTOMS
from tests.executor.jobs import new_job
from tests.models.world import DEAD, WELL
from tests.subjects.declarative.diagnosing import brief, diagnose
from tests.subjects.declarative.trying import Tried, described

SHOP = """\
name: shop
targets:
  web: {kind: web, port: 80}
  worker: {kind: worker}
probes:
  queue: {file: {path: queue, matches: 'depth (?P<depth>[0-9]+) workers (?P<workers>[0-9]+)'}}
invariants:
  queue_is_short:
    on: web
    holds: queue.depth < 100
    says: "{queue.depth} messages wait at {target}"
    causes: [workers_gone, burst]
causes:
  workers_gone:
    says: no worker is left to empty the queue
    shows: queue.workers < 1
    remedies: [start_workers]
  burst: {says: more arrives than the workers can do, shows: queue.workers >= 1}
  elsewhere: {says: something at the worker, on: worker, shows: queue.workers < 1}
levers:
  start_workers: {command: [start, "{target}"], on: web, risk: low, proves: [queue_is_short]}
  purge: {command: [purge], risk: low}
  restart: {command: [restart], risk: low, repairs: [wrong_answer]}
"""


def shop(folder: Path, queue: str, text: str = SHOP) -> Tried:
    (folder / "queue").write_text(queue)
    return described(folder, text)


@pytest.mark.asyncio
async def test_evidence_tells_causes_apart_and_only_the_lever_of_the_cause_runs(
    tmp_path: Path,
) -> None:
    found = await diagnose(shop(tmp_path, "depth 500 workers 0"))
    assert (found.cause, found.target) == ("workers_gone", "web")
    assert found.confidence > 0.9
    assert found.choice == "start_workers(web)"
    found = await diagnose(shop(tmp_path, "depth 500 workers 3"))
    assert (found.cause, found.choice) == ("burst", "escalate")
    assert "more arrives than the workers can do" in found.summary


@pytest.mark.asyncio
async def test_evidence_is_read_only_where_something_is_broken(tmp_path: Path) -> None:
    seen = (await shop(tmp_path, "depth 5 workers 0").look()).of("web")
    assert not [name for name in seen.readings if name.startswith("cause.")]
    seen = (await shop(tmp_path, "depth 500 workers 0").look()).of("web")
    assert seen.readings["cause.workers_gone"] is True
    assert seen.readings["cause.burst"] is False
    assert seen.readings["cause.elsewhere"] is False, "it is a cause of workers only"
    seen = (await shop(tmp_path, "nonsense").look()).of("web")
    assert seen.readings["cause.burst"] is False, "nothing was read that would show it"


@pytest.mark.asyncio
async def test_words_are_those_of_errors(tmp_path: Path) -> None:
    text = (
        "name: a\ntargets: {t: {kind: k}}\nprobes: {f: {file: {path: none}}}\n"
        "invariants: {i: {holds: f.ok, causes: [gone, odd]}}\n"
        "causes: {gone: {says: it is gone, words: 'does not exist'},"
        " odd: {says: it is odd, words: exist, shows: f.exists}}\n"
    )
    tried = described(tmp_path, text)
    readings = (await tried.seen()).readings
    assert (readings["cause.gone"], readings["cause.odd"]) == (True, False)
    assert (await diagnose(tried)).cause == "gone"


@pytest.mark.asyncio
@pytest.mark.parametrize(("place", "is_ruled_out"), [("", True), (", port: 1", False)])
async def test_without_an_address_a_shown_cause_rules_out_those_of_a_process(
    tmp_path: Path, place: str, is_ruled_out: bool
) -> None:
    text = (
        f"name: a\ntargets: {{t: {{kind: k{place}}}}}\nprobes: {{f: {{file: {{path: none}}}}}}\n"
        "invariants: {i: {holds: f.ok, causes: [gone]}}\n"
        "causes: {gone: {says: it is gone, shows: CONDITION}}\n"
    )
    tried = described(tmp_path, text.replace("CONDITION", '"!f.exists"'))
    readings = (await tried.seen()).readings
    assert readings["cause.gone"] is True
    ruled_out = [readings.get(f"cause.process_{how}") for how in ("dead", "hung", "paused")]
    assert ruled_out == [False if is_ruled_out else None] * 3
    unknown = described(tmp_path, text.replace("CONDITION", "f.exists"))
    assert "cause.process_dead" not in (await unknown.seen()).readings, "nothing else explains it"


@pytest.mark.asyncio
async def test_a_lever_may_repair_an_invariant_without_a_cause_being_known(tmp_path: Path) -> None:
    text = SHOP.replace("{command: [purge]", "{command: [purge], repairs: [queue_is_short]")
    text = text.replace("    causes: [workers_gone, burst]\n", "")
    start, rest = text.split("causes:\n")
    tried = shop(tmp_path, "depth 500 workers 3", start + "levers:\n" + rest.split("levers:\n")[1])
    found = await diagnose(tried, web=WELL, worker=WELL)
    assert (found.cause, found.choice) == ("queue_is_short", "purge(web)")
    assert (await diagnose(tried, web=DEAD, worker=WELL)).cause == "process_dead"


@pytest.mark.asyncio
async def test_what_is_tied_to_nothing_is_never_chosen_and_always_asked_about(
    tmp_path: Path,
) -> None:
    tried = shop(tmp_path, "depth 500 workers 3")
    specs = {spec.name: spec for spec in (await brief(tried)).tools}
    assert specs["start_workers"].risk == "low"
    for name in ("purge", "restart_node"):
        assert specs[name].risk == "medium", name
    assert specs["start_workers"].ends == ("workers_gone",)
    assert specs["start_workers"].verify == "These hold: queue_is_short."


@pytest.mark.asyncio
async def test_a_lever_waits_for_its_preconditions(tmp_path: Path) -> None:
    says = "says: the file is small, reading: queue.size_bytes, at_most: %s, within: 0s"
    text = SHOP.replace("on: web, risk", f"requires: {{small: {{{says}}}}}, on: web, risk")
    tried = shop(tmp_path, "depth 500 workers 0", text % "100")
    assert (await diagnose(tried)).choice == "start_workers(web)"
    found = await diagnose(shop(tmp_path, "depth 500 workers 0", text % "5"))
    assert (found.cause, found.choice) == ("workers_gone", "escalate")
    with pytest.raises(ConfigError, match="Did you mean 'size_bytes'"):
        describe((text % "5").replace("queue.size_bytes", "queue.size_byte"), "f")
    with pytest.raises(ConfigError, match="needs its answer"):
        describe((text % "5").replace(", at_most: 5", ""), "f")


def test_the_shared_causes_are_those_of_the_agent() -> None:
    known = {cause.name for cause in GENERIC} | {cause.name for cause in KNOWLEDGE.causes}
    assert set(SHARED) == known
    own = {name for name in SYMPTOMS if name not in SHARED}
    assert not own, "every symptom is a cause"
    assert VAGUE <= NO_REASON


MISTAKES = [
    ("[workers_gone, burst]", "[workers_gon]", "'workers_gon' is not a cause. Did you mean"),
    ("remedies: [start_workers]", "remedies: [star_workers]", "Did you mean 'start_workers'?"),
    (
        "[wrong_answer]",
        "[proces_dead]",
        "is not a cause or an invariant. Did you mean 'process",
    ),
    ("[wrong_answer]", "[queue_is_shrt]", "Did you mean 'queue_is_short'?"),
    ("repairs: [wrong", "ends: [burst], repairs: [wrong", "'ends' and 'repairs' are the same"),
    (
        "on: worker,",
        "on: wroker,",
        "neither a kind nor a name of a target. Did you mean 'worker'",
    ),
    (
        "shows: queue.workers < 1\n    r",
        "shows: queue.wrkers < 1\n    r",
        "Did you mean 'workers'?",
    ),
    ("says: no worker is left", "say: no worker is left", "Did you mean 'says'?"),
    (
        '"{target}"',
        '"{taget}"',
        "{taget} in 'command' of the lever 'start_workers' is not known",
    ),
    ('"{target}"', '"{taget}"', "Did you mean 'target'?"),
    ("at {target}", "at {targt}", "Did you mean 'target'?"),
    ("at {target}", "at {queue.dpth}", "Did you mean 'depth'?"),
    ("proves: [queue_is_short]", "proves: [burst]", "'burst' is not an invariant."),
    ("on: web, risk", "runs_at: wbe, risk", "Did you mean 'web'?"),
    ("  burst: {", "  queue_is_short: {", "'queue_is_short' is a cause and an invariant."),
]


@pytest.mark.parametrize(("right", "mistake", "told"), MISTAKES)
def test_a_word_that_means_nothing_names_what_was_meant(
    right: str, mistake: str, told: str
) -> None:
    line = SHOP[: SHOP.index(right)].count("\n") + 1
    text = SHOP.replace(right, mistake, 1)
    if mistake.startswith("  queue"):
        text = text.replace("[workers_gone, burst]", "[workers_gone]")
    with pytest.raises(ConfigError) as raised:
        describe(text, "f")
    assert told in str(raised.value)
    assert f"Line {line} of" in str(raised.value)


def test_braces_of_other_programs_are_left_alone() -> None:
    text = SHOP.replace(
        "[purge]", "[docker, ps, --format, '{{json .}}{{end}}', '${x}', '{ print }']"
    )
    purge = describe(text, "f").levers[1]
    assert purge.command.argv[3:] == ("{{json .}}{{end}}", "${x}", "{ print }")


def test_on_is_checked_against_the_targets_of_operator_toml(tmp_path: Path) -> None:
    from dataclasses import replace

    from operator_protocols.domain.target import Target
    from operator_sre.plugins import find_plugin

    text = "name: a\nprobes: {p: {on: wbe, tcp: }}\ninvariants: {i: {on: web, holds: p.up}}\n"
    tried = described(tmp_path, text)
    settings = replace(tried.settings, targets=lambda: (Target("t", "web", port=1),))
    with pytest.raises(ConfigError, match=r"the probe 'p': 'wbe' .* Did you mean 'web'\?"):
        find_plugin("declarative").subject(settings)


@pytest.mark.asyncio
async def test_a_lever_runs_at_the_place_that_it_names(tmp_path: Path) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    from operator_protocols.domain.action import Action, Outcome, Result
    from operator_protocols.ports import Job

    class Noting:
        async def run(self, action: Action, job: Job) -> Result:
            asked.append((action.target, action.argv))
            return Result(Outcome.RAN, 0)

        async def recover(self, action: Action, job: Job) -> Result:
            raise AssertionError(action)

        async def identify(self, target: str) -> str:
            return "local"

    text = (
        "name: a\ntargets:\n  app: {kind: app, runs_at: 'docker://app', depends_on: [host]}\n"
        "  host: {kind: host, runs_at: 'ssh://me@host'}\nprobes: {p: {tcp: {port: 1}}}\n"
        "invariants: {i: {holds: p.up}}\n"
        "levers:\n  start: {on: app, runs_at: host, command: [docker, start, '{target}']}\n"
        "  same: {on: app, runs_at: 'ssh://me@host', command: [a]}\n"
        "  here: {on: app, runs_at: local, command: [b]}\n  own: {on: app, command: [c]}\n"
    )
    tried = described(tmp_path, text, commands=Noting())
    for tool in tried.tools:
        result = await tool.call({"target": "app"}, new_job())
        assert result.ok, result
    assert asked == [
        ("host", ("docker", "start", "app")),
        ("host", ("a",)),
        ("", ("b",)),
        ("app", ("c",)),
    ]
    assert "at host" in tried.tools[0].spec.expected, "an approver reads where it runs"


@pytest.mark.asyncio
async def test_a_healthy_description_stays_healthy(tmp_path: Path) -> None:
    assert await shop(tmp_path, "depth 5 workers 0").health() is Health.HEALTHY


@pytest.mark.asyncio
async def test_an_escalation_has_the_line_that_ends_the_likeliest_cause(tmp_path: Path) -> None:
    text = (
        "name: a\ntargets: {t: {kind: k}}\nprobes: {f: {file: {path: f}}}\n"
        "invariants: {i: {holds: '!f.exists', causes: [stale, wanted]}}\n"
        "causes:\n  stale: {says: it was left behind, shows: f.exists}\n"
        "  wanted: {says: somebody wants it, shows: f.exists, prior: 0.4}\n"
        "levers:\n"
        "  drop: {says: Remove it, command: [rm, '{target}'], risk: low, repairs: [stale]}\n"
    )
    (tmp_path / "f").touch()
    found = await diagnose(described(tmp_path, text))
    assert (found.cause, found.choice) == ("stale", "escalate")
    line = "`operator tools run drop --subject mine --mode approve --target t`"
    assert f"If the first is right: {line} (remove it)." in found.why
    offered = next(option for option in found.options if option.action == "drop(t)")
    assert offered.trade_off == "It runs `rm t`"
    rare = text.replace("says: it was left behind", "says: it was left behind, prior: 0.4")
    found = await diagnose(described(tmp_path, rare))
    assert "tools run" not in found.why, "at even odds no line is offered"

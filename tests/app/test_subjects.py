"""Subjects for people: what there is, how it looks now, and how it looked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app import service
from operator_sre.app.subjects import (
    HistoryView,
    Point,
    Replayed,
    Series,
    SubjectLine,
    SubjectView,
    check_subject,
    list_subjects,
    observe_subject,
    replay_history,
    show_subject,
    subject_history,
    subject_of,
)
from operator_sre.app.wiring import App
from tests.app.home import SUBJECTS, opened
from tests.processes.waiting import eventually


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with opened(tmp_path, SUBJECTS, timeout_s="1", interval_s="0.2") as app:
        yield app


def test_every_subject_is_listed_with_its_health(app: App) -> None:
    (shop,) = list_subjects(app)
    assert isinstance(shop, SubjectLine)
    assert (shop.name, shop.plugin, shop.targets) == ("shop", "ratelimiter", 1)
    assert (shop.health, shop.last_look, shop.rig) == (Health.UNKNOWN, None, False)


@pytest.mark.parametrize("plugin", ["etcd", "postgres", "ratelimiter", "tikv"])
def test_every_invariant_of_every_subject_has_a_sentence_of_its_own(
    tmp_path: Path, plugin: str
) -> None:
    kind = {"etcd": "member", "postgres": "server", "ratelimiter": "node", "tikv": "pd"}[plugin]
    target = f'{{ name = "a", kind = "{kind}", port = 1 }}'
    with opened(tmp_path, f'[subjects.it]\nplugin = "{plugin}"\ntargets = [{target}]\n') as app:
        found = show_subject(app, "it").invariants
    sentences = [invariant.sentence for invariant in found]
    assert all(len(sentence.split()) >= 2 for sentence in sentences), sentences
    assert len(set(sentences)) == len(sentences), "each says what it demands"


def test_an_expression_of_several_lines_is_shown_on_one(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(
        "name: site\ntargets: {a: {kind: web, host: 127.0.0.1, port: 1}}\n"
        "probes: {home: {on: web, tcp: {}}}\n"
        "invariants:\n  up:\n    on: web\n"
        "    holds: |\n      home.up\n      && home.latency_ms < 500.0\n"
    )
    toml = '[subjects.site]\nplugin = "declarative"\noptions = {file = "site.yaml"}\n'
    with opened(tmp_path, toml) as app:
        (invariant,) = show_subject(app, "site").invariants
    assert invariant.sentence == "up: home.up && home.latency_ms < 500.0"


def test_a_subject_is_shown_with_all_it_is_made_of(app: App) -> None:
    view = show_subject(app, "shop")
    assert isinstance(view, SubjectView)
    assert [one.name for one in view.targets] == ["node-1"]
    node_down = next(one for one in view.invariants if one.name == "node_down")
    assert (node_down.severity, node_down.grace_s) == ("critical", 0.0)
    assert node_down.sentence
    assert {"node_kill"} <= {one.name for one in view.faults}
    with pytest.raises(NotFoundError, match="Subjects here: shop"):
        show_subject(app, "nosuch")


@pytest.mark.asyncio
async def test_a_look_is_told_and_not_remembered(app: App) -> None:
    (seen,) = await observe_subject(app, [])
    assert [one.target for one in seen.seen] == ["node-1"]
    (check,) = await check_subject(app, ["shop"])
    assert "shop/node-1/node_down" in check.broken()
    assert subject_of(app, "shop").name == "shop"
    assert list(app.store.observations.newest("shop", limit=1)) == []
    assert list(app.store.conditions.of("shop")) == []


async def _record(app: App, *latencies: float | None) -> None:
    start = app.clock.now() - timedelta(minutes=len(latencies))
    for minute, value in enumerate(latencies):
        seen = Seen("node-1", problem="no") if value is None else Seen("node-1", {"ms": value})
        await app.store.observations.add(
            Observation("shop", start + timedelta(minutes=minute), (seen, Seen("b", {"ms": 1})))
        )


@pytest.mark.asyncio
async def test_readings_are_told_over_time(app: App) -> None:
    await _record(app, 1.0, 2.0, None, 4.0)
    view = subject_history(app, "shop", target="node-*", reading="*", since="1h")
    assert isinstance(view, HistoryView)
    (series,) = view.series
    assert isinstance(series, Series)
    assert (series.target, series.reading, view.looks) == ("node-1", "ms", 4)
    assert isinstance(series.points[0], Point)
    assert [one.value for one in series.points] == [1.0, 2.0, None, 4.0]
    assert series.points[2].problem == "no"
    assert subject_history(app, "shop", target="*", reading="x", since="1h").looks == 4
    assert subject_history(app, "shop", target="*", reading="*", since="90s").looks == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("since", ["soon", "-1h", "99999999999d"])
async def test_a_span_that_is_none_is_refused(app: App, since: str) -> None:
    with pytest.raises(UsageError):
        subject_history(app, "shop", target="*", reading="*", since=since)


@pytest.mark.asyncio
async def test_todays_invariants_are_checked_over_the_record(app: App) -> None:
    start = app.clock.now() - timedelta(minutes=9)
    for minute, reachable in enumerate([True, False, False, True]):
        seen = Seen("node-1", {"kind": "node", "reachable": reachable, "status": "up"})
        at = start + timedelta(minutes=minute)
        await app.store.observations.add(Observation("shop", at, (seen,)))
    found = replay_history(app, "shop", target="*", since="1h")
    assert isinstance(found, Replayed)
    (spell,) = [one for one in found.spells if one.invariant == "node_down"]
    assert (spell.since, spell.until) == (
        start + timedelta(minutes=1),
        start + timedelta(minutes=3),
    )
    assert replay_history(app, "shop", target="x", since="1h").spells == ()


@pytest.mark.asyncio
async def test_subjects_that_come_are_watched_and_those_that_go_are_not(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RELOAD_S", 0.1)
    watching = asyncio.ensure_future(service.monitor(app, [], every=True))

    def looked(name: str) -> int:
        return len(app.store.observations.newest(name, limit=1000))

    async def until(*names: str) -> None:
        found = {name: looked(name) for name in names}
        await eventually(lambda: all(looked(name) > found[name] for name in names))

    def watched() -> list[str]:
        return [one.subject for who in app.store.watchers.find() for one in who.watches]

    await until("shop")
    toml = tmp_path / "operator.toml"
    toml.write_text(SUBJECTS + SUBJECTS.replace("subjects.shop", "subjects.bank"))
    await until("shop", "bank")
    toml.write_text("[subjects.")  # somebody is writing it this moment
    await until("shop", "bank")
    toml.write_text(SUBJECTS.replace("subjects.shop", "subjects.bank"))
    await eventually(lambda: watched() == ["bank"])
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert list(app.store.watchers.find()) == []


@pytest.mark.asyncio
async def test_all_and_some_contradict_each_other(app: App) -> None:
    with pytest.raises(UsageError, match="cannot be used together"):
        await service.monitor(app, ["shop"], every=True)

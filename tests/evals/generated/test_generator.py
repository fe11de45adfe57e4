"""Cases are reproducible from their seed, stay within types and rig, and shrink to an end."""

from __future__ import annotations

import importlib
import random
from collections import Counter
from pathlib import Path

import pytest

from operator_evals.generated.case import Case, Injection, Kind, Primitive, Timing
from operator_evals.generated.generator import generate, mutate, shrink, smaller
from operator_evals.generated.surface import (
    AdminCommand,
    Setting,
    SettingType,
    Surface,
    file_settings,
    settings_file,
    surface_of,
)
from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_sre.codec import from_json, to_json
from operator_sre.plugins import find_plugin

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "operator-subject-redis"
SHOP = RigSpec(
    "shop",
    (
        ProcessSpec(
            "till",
            "till",
            ("till-server", "{dir}/till.conf", "--port", "{port}"),
            files={"till.conf": "workers 4\ntimeout 2s\nverbose no\nname till-{port}\n"},
            linked=True,
            volume_mb=8,
        ),
        ProcessSpec("stock", "stock", ("stock-server", "{port}"), linked=True),
        ProcessSpec("clock", "clock", ("clock-server", "{port}")),
    ),
    LoadSpec("till", path="/pay"),
)
SETTINGS = (
    Setting("fsync", SettingType.BOOL, "on", live=True),
    Setting("level", SettingType.CHOICE, "info", choices=("debug", "info", "error")),
    Setting("limit", SettingType.INTEGER, "40", low=1, high=262143, live=True),
    Setting("ratio", SettingType.REAL, "0.5", low=0, high=1),
    Setting("wait", SettingType.DURATION, "3s"),
    Setting("path", SettingType.TEXT, "here"),
    Setting("goods/price", SettingType.INTEGER, "7", low=1, high=262143, live=True, filed=False),
)
COMMANDS = (AdminCommand("revoke", "app", reversible=True), AdminCommand("forget", "stock"))
SEEDS = range(1, 600)


def surface() -> Surface:
    return surface_of(SHOP).with_server({"till": SETTINGS}, {"till": COMMANDS})


def test_a_seed_gives_the_same_case_again_and_others_differ() -> None:
    first = [generate(surface(), seed) for seed in SEEDS]
    assert first == [generate(surface(), seed) for seed in SEEDS]
    assert len({case.sentence for case in first}) > len(first) / 2
    # What the servers list may come in any order.
    other = surface_of(SHOP).with_server({"till": SETTINGS[::-1]}, {"till": COMMANDS[::-1]})
    assert first == [generate(other, seed) for seed in SEEDS]


def test_a_case_survives_being_written_down() -> None:
    for seed in SEEDS:
        case = generate(surface(), seed)
        assert from_json(Case, to_json(case)) == case
        assert case.components <= {"till", "stock", "clock", "app", "goods"}
        assert case.sentence


def test_every_kind_and_timing_and_every_count_appears() -> None:
    cases = [generate(surface(), seed) for seed in SEEDS]
    kinds = Counter(each.primitive.kind for case in cases for each in case.injections)
    timings = Counter(each.timing for case in cases for each in case.injections)
    assert set(kinds) == set(Kind)
    assert set(timings) == set(Timing)
    assert {len(case.injections) for case in cases} == {1, 2, 3}
    assert min(kinds.values()) > max(kinds.values()) / 8


def test_a_primitive_fits_the_part_that_it_is_for() -> None:
    parts = {part.name: part for part in surface().parts}
    for seed in SEEDS:
        injections = generate(surface(), seed).injections
        assert injections
        for each in injections:
            primitive, part = each.primitive, parts[each.primitive.target]
            match primitive.kind:
                case Kind.LINK:
                    assert part.linked
                    assert primitive.arguments["other"] in ("", *part.peers)
                case Kind.DISK:
                    assert part.sized
                case Kind.SETTING:
                    settings = {setting.name: setting for setting in part.settings}
                    setting = settings[str(primitive.arguments["name"])]
                    when = primitive.arguments["when"]
                    assert setting.live or when == "restart"
                    assert setting.filed or when == "now"
                case Kind.FILE if primitive.arguments["path"]:
                    assert primitive.arguments["path"] in part.files
                case Kind.ADMIN if each.timing in (Timing.REPEATED, Timing.HEALING):
                    assert primitive.arguments["command"] == "revoke"
                case _:
                    pass


def test_only_processes_and_links_of_a_stand_in_are_broken() -> None:
    stand_in = surface_of(SHOP, stand_in=True)
    kinds = {each.primitive.kind for seed in SEEDS for each in generate(stand_in, seed).injections}
    assert kinds == {Kind.SIGNAL, Kind.LINK}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_value_stays_within_its_type_and_differs(setting: Setting) -> None:
    for seed in range(200):
        value = mutate(setting, random.Random(seed))
        assert value != setting.value
        match setting.type:
            case SettingType.BOOL:
                assert value == "off"
            case SettingType.CHOICE:
                assert value in setting.choices
            case SettingType.INTEGER:
                assert 1 <= int(value) <= 262143
            case SettingType.REAL:
                assert 0 <= float(value) <= 1
            case SettingType.DURATION:
                assert value[0].isdigit()
                assert value[-1] == "s"
            case SettingType.TEXT:
                assert len(value) < 20


def test_a_smaller_case_has_fewer_primitives_or_plainer_timing() -> None:
    steps = 0
    for seed in SEEDS:
        case = generate(surface(), seed)
        for other in smaller(case):
            assert _weight(other) < _weight(case)
            steps += 1
    assert steps > len(SEEDS)


def _weight(case: Case) -> tuple[int, int]:
    odd = sum(each != Injection(each.primitive) for each in case.injections)
    return len(case.injections), odd


@pytest.mark.asyncio
async def test_shrinking_ends_at_what_is_needed() -> None:
    culprit = Primitive(Kind.DISK, "till", {"left_bytes": 0})
    noise = [Primitive(Kind.SIGNAL, "stock", {"signal": "HUP", "child": n}) for n in range(2)]
    case = Case(
        "shop",
        1,
        (
            Injection(noise[0], Timing.REPEATED, 0.0, 2.0, 3),
            Injection(culprit, Timing.HEALING, 1.0, 5.0),
            Injection(noise[1]),
        ),
    )
    tried = []

    async def fails(candidate: Case) -> bool:
        tried.append(candidate)
        return any(each.primitive == culprit for each in candidate.injections)

    assert (await shrink(case, fails)).injections == (Injection(culprit),)
    assert len(tried) < 12

    async def never(candidate: Case) -> bool:
        return False

    assert await shrink(case, never) == case


def test_files_of_any_usual_format_show_their_settings() -> None:
    formats = {
        "a.json": '{"limit": 100, "window_s": 20.0, "key": "x", "loose": true}',
        "a.conf": "# no\nlimit 100\nwindow_s 20.0\nkey x\nloose yes\n",
        "a.toml": '[part]\nlimit = 100\nwindow_s = 20.0\nkey = "x"\nloose = true\n',
        "a.yaml": "limit: 100\nwindow_s: 20.0\nkey: x\nloose: true\n",
    }
    for name, text in formats.items():
        types = {setting.name: setting.type for setting in file_settings(name, text)}
        assert types == {
            "limit": SettingType.INTEGER,
            "window_s": SettingType.REAL,
            "key": SettingType.TEXT,
            "loose": SettingType.BOOL,
        }, name
    assert file_settings("a.json", "{") == []
    assert file_settings("a.conf", "save 1\nsave 2\n") == []
    assert settings_file(SHOP.processes[0]) == "till.conf"
    assert settings_file(SHOP.processes[1]) == ""


@pytest.mark.parametrize("subject", ["etcd", "postgres", "ratelimiter"])
def test_the_rig_of_a_plug_in_is_all_that_is_needed(subject: str) -> None:
    make = find_plugin(subject).rig
    assert make is not None
    # Two descriptions of one rig have other passwords, and the same surface.
    assert surface_of(make()) == surface_of(make())
    found = surface_of(make())
    assert any(part.served for part in found.parts)
    assert any(part.settings for part in found.parts)
    assert any(part.sized for part in found.parts)
    assert generate(found, 7) == generate(surface_of(make()), 7)


def test_the_rig_of_a_stranger_gets_primitives_without_any_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    plugin = importlib.import_module("operator_subject_redis").plugin
    found = surface_of(plugin.rig())
    cases = [generate(found, seed) for seed in SEEDS]
    parts = {part.name for part in found.parts}
    assert parts == {"primary", "replica"}
    assert {part for case in cases for part in case.components} == parts
    kinds = {each.primitive.kind for case in cases for each in case.injections}
    assert kinds >= {Kind.SIGNAL, Kind.PORT, Kind.LIMIT, Kind.CLIENTS}
    assert cases == [generate(surface_of(plugin.rig()), seed) for seed in SEEDS]

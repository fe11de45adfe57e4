"""A former primary is started only as a replica of the primary that most sentinels name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Seen
from operator_protocols.domain.target import Process, Target
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.plugins import find_plugin
from operator_sre.subjects.ratelimiter.stores import StoreReport
from tests.contract.clock import LeapingClock

pytestmark = pytest.mark.asyncio

OLD, NEW = "127.0.0.1:1", "127.0.0.1:2"
BEFORE = 'port 1\nsave ""\n'


class Life:
    """Remembers what was killed and started."""

    def __init__(self) -> None:
        self.acts: list[str] = []

    async def kill(self, target: str) -> None:
        self.acts.append(f"kill {target}")

    async def restart(self, target: str) -> Process:
        self.acts.append(f"restart {target}")
        return Process(1, 0.0)


@pytest.mark.parametrize(
    ("elected", "quorum_error", "heir", "role", "acts", "says"),
    [
        ([NEW], "", "primary", "replica", ["restart store"], "a replica of replica"),
        # The failover goes on: the sentinels still name the former primary.
        ([OLD, OLD, NEW], "", "primary", "replica", ["restart store"], "a replica of replica"),
        ([OLD], "", "primary", "replica", [], "store is the elected primary"),
        ([""], "", "primary", "replica", [], "do not agree"),
        ([NEW], "NOQUORUM", "primary", "replica", [], "with a quorum"),
        (["127.0.0.1:9"], "", "primary", "replica", [], "none of the known stores"),
        ([NEW], "", "replica", "replica", [], "does not answer as the primary"),
        ([NEW], "", "", "replica", [], "does not answer as the primary"),
        # It must not go on as what it should not be.
        ([NEW], "", "primary", "primary", ["restart store", "kill store"], "it was stopped"),
        ([NEW], "", "primary", "", ["restart store", "kill store"], "it was stopped"),
    ],
)
async def test_it_starts_only_below_the_elected_primary(
    elected: list[str],
    quorum_error: str,
    heir: str,
    role: str,
    acts: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, life = list(elected), Life()

    async def observe_store(*_: object, **__: object) -> StoreReport:
        place = answers.pop(0) if len(answers) > 1 else answers[0]
        return StoreReport(Seen("sentinel-1", {"primary": place, "quorum_error": quorum_error}))

    async def role_of(target: Target, **__: object) -> str:
        return heir if target.name == "replica" else role

    module = "operator_sre.subjects.ratelimiter.tools"
    monkeypatch.setattr(sys.modules[module], "observe_store", observe_store)
    monkeypatch.setattr(sys.modules[module], "role_of", role_of)
    config = tmp_path / "store.conf"
    config.write_text(BEFORE)
    targets = [
        Target("store", "store", port=1, data_dir=str(tmp_path)),
        Target("replica", "replica", port=2),
        Target("sentinel-1", "sentinel", port=3),
    ]
    settings = SubjectSettings("shop", lambda: targets, LeapingClock(), 1.0, {}, life=life)
    made = find_plugin("ratelimiter").tools
    assert made is not None
    tool = next(each for each in made(settings) if each.spec.name == "start_as_replica")
    result = await tool.call({"target": "store"}, Job("job"))
    assert says in result.stdout + result.stderr
    assert life.acts == acts
    follows = f"{BEFORE}replicaof 127.0.0.1 2\n"
    assert config.read_text() == (follows if acts else BEFORE)

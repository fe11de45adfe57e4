"""Campaigns that many machines do together, over a real PostgreSQL: killed, paused, resumed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_evals.app.campaigns import Wanted, campaign_of
from operator_evals.app.leader import Leader, lead_campaign
from operator_evals.app.worker import take_trials
from operator_evals.campaign import Campaign, Scenario, Variant
from operator_evals.conductor import Outcome, Progress
from operator_evals.database import open_database
from operator_evals.facts import TrialFacts
from operator_protocols.errors import ConflictError, StoreError, UsageError
from operator_protocols.ports import CorrectOutcome
from operator_sre.app.wiring.engines import TrialQueue, trials_of
from operator_sre.clock import SystemClock
from operator_sre.config import load_config
from operator_sre.engine.trials import trial_queue
from operator_sre.release import code_revision
from tests.contract.postgres import database_in, shared_server
from tests.processes.waiting import eventually

VERSION = "test"
ROOT = Path(__file__).resolve().parents[3]
QUICK = tuple(
    Scenario("shop", f"quick_{n}", CorrectOutcome.MITIGATED, ("answers",)) for n in range(4)
)
LONG = Scenario("shop", "long", CorrectOutcome.MITIGATED, ("answers",))


def _campaign(*scenarios: Scenario, seeds: int = 1) -> Campaign:
    return Campaign("many", scenarios, (Variant("reasoner"),), {"reasoner": seeds})


class Fleet:
    """Workers, each as if on a machine of its own, and the notes that they leave."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def hire(
        self, name: str, *, at_once: int = 1, long_s: float = 60.0, version: str = VERSION
    ) -> subprocess.Popen[str]:
        """One more."""
        with (self.folder / f"{name}.err").open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.evals.app.taker_process"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                text=True,
            )
        assert process.stdin is not None
        words = (self.url, self.folder, name, at_once, long_s, version)
        process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        process.stdin.close()
        self.processes[name] = process
        return process

    def notes(self, name: str) -> list[tuple[str, str, float]]:
        """What a worker did: begun, done or ended, of which trial, when."""
        file = self.folder / f"{name}.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [tuple(json.loads(line)) for line in lines]

    def noted(self, what: str) -> Counter[str]:
        """How often each trial has this note, of all workers."""
        names = [file.stem for file in self.folder.glob("*.jsonl")]
        return Counter(key for name in names for word, key, _ in self.notes(name) if word == what)

    def end(self) -> None:
        """End all of them."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(20)


@pytest.fixture
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Nobody yet."""
    with database_in("postgresql", tmp_path, request.config) as url:
        one = Fleet(url, tmp_path)
        yield one
        one.end()


class Led:
    """A campaign that is led from here; what is kept stays when it is led again."""

    def __init__(self, fleet: Fleet, campaign: Campaign) -> None:
        self.fleet, self.campaign = fleet, campaign
        self.kept: dict[str, TrialFacts] = {}
        self.keeps: Counter[str] = Counter()
        self.said: list[Progress] = []

    def _keep(self, facts: TrialFacts) -> None:
        self.kept[facts.key] = facts
        self.keeps[facts.key] += 1

    async def conduct(self) -> Outcome:
        """To its end, or until cancelled."""
        queue = trial_queue(self.fleet.url, executor=f"leader-{os.getpid()}", version=VERSION)
        leader = Leader(
            *(queue, self.campaign, "trial-here", self.fleet.folder / "ledgers" / "many"),
            *(self._keep, SystemClock(), self.said.append),
            poll_s=0.2,
            silent_s=2.0,
            taken_s_max=1.5,
        )
        await asyncio.to_thread(queue.open)
        try:
            return await leader.conduct(list(self.kept.values()))
        finally:
            await asyncio.to_thread(queue.close)


@pytest.mark.asyncio
async def test_two_machines_do_a_campaign_and_what_came_of_it_is_kept_where_it_is_led(
    fleet: Fleet,
) -> None:
    made = campaign_of(Wanted("etcd", "", name="many"))
    one, two, three, *_ = made.scenarios
    alone = replace(two, alone=True)
    campaign = replace(made, scenarios=(one, alone, three), seeds={"reasoner": 2})
    fleet.hire("crane", at_once=2, version=code_revision())
    fleet.hire("heron", version=code_revision())
    flags = {"home": str(fleet.folder / "home"), "store": fleet.url}
    config = load_config(flags=flags, environ={}, cwd=fleet.folder)
    said: list[Progress] = []
    outcome = await lead_campaign(config, campaign, tell=said.append)
    assert (outcome.done, outcome.of, outcome.failed) == (6, 6, 0)
    with open_database(config.home / "eval.db") as database:
        kept = {facts.key: facts for facts in database.trials("many")}
    assert fleet.noted("begun") == fleet.noted("done") == Counter(dict.fromkeys(kept, 1))
    assert {facts.hit for facts in kept.values()} <= {"crane", "heron"}
    for facts in kept.values():
        ledger = config.home / facts.ledger
        assert ledger.read_bytes() == f"ledger of {facts.key} by {facts.hit}".encode()
        assert ledger.parent == config.home / "ledgers" / "many"
    _must_be_alone(fleet.notes("crane"), alone.name)
    assert 1 <= max(one.workers or 0 for one in said) <= 2
    assert sorted(one.last.key for one in said if one.last) == sorted(kept)
    again = await lead_campaign(config, campaign, tell=said.append)
    assert (again.before, again.done) == (6, 0)


def _must_be_alone(notes: list[tuple[str, str, float]], alone: str) -> None:
    """Nothing else is under way while one runs that must be alone."""
    running: set[str] = set()
    for what, key, _ in notes:
        if what == "begun":
            running.add(key)
            assert len(running) == 1 or not any(one.startswith(alone) for one in running), running
        else:
            running.discard(key)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_trial_of_a_worker_that_is_killed_is_done_again_by_another_and_counts_once(
    fleet: Fleet,
) -> None:
    led = Led(fleet, _campaign(LONG, QUICK[0]))
    first = fleet.hire("crane", at_once=2, long_s=600.0)
    leading = asyncio.ensure_future(led.conduct())
    # It does two at once: while the long one goes on, the other one comes to its end.
    await eventually(lambda: "shop:long/reasoner/0" in fleet.noted("begun") and led.kept)
    first.kill()
    fleet.hire("stork", long_s=0.1, version="another")  # it would be quick, and is not asked
    await eventually(lambda: led.said[-1].workers == 0)
    fleet.hire("heron", long_s=0.1)
    outcome = await leading
    assert (outcome.done, outcome.failed) == (2, 0)
    assert fleet.noted("begun")["shop:long/reasoner/0"] == 2
    assert led.kept["shop:long/reasoner/0"].hit == "heron"
    assert set(led.keeps.values()) == {1}


@pytest.mark.slow
@pytest.mark.asyncio
async def test_who_was_paused_too_long_ends_what_others_were_given_and_changes_nothing(
    fleet: Fleet,
) -> None:
    led = Led(fleet, _campaign(LONG, QUICK[0]))
    first = fleet.hire("crane", long_s=8.0)
    leading = asyncio.ensure_future(led.conduct())
    await eventually(lambda: "shop:long/reasoner/0" in fleet.noted("begun"))
    first.send_signal(signal.SIGSTOP)
    fleet.hire("heron", long_s=12.0)
    await eventually(lambda: fleet.noted("begun")["shop:long/reasoner/0"] == 2)
    first.send_signal(signal.SIGCONT)
    await eventually(lambda: [one for one in fleet.notes("crane") if one[0] != "begun"])
    await leading
    assert led.kept["shop:long/reasoner/0"].hit == "heron"
    assert set(led.keeps.values()) == {1}


@pytest.mark.slow
@pytest.mark.asyncio
async def test_who_is_stopped_gives_back_and_who_is_unfit_leaves(fleet: Fleet) -> None:
    led = Led(fleet, _campaign(LONG, QUICK[0]))
    first = fleet.hire("crane", long_s=600.0)
    leading = asyncio.ensure_future(led.conduct())
    await eventually(lambda: "shop:long/reasoner/0" in fleet.noted("begun"))
    unfit = fleet.hire("unfit")
    assert await asyncio.to_thread(unfit.wait, 30) == 1
    assert (fleet.folder / "unfit.err").read_text() == "There can be no rig here.\n"
    first.terminate()
    assert await asyncio.to_thread(first.wait, 30) == 0
    fleet.hire("heron", long_s=0.1)
    outcome = await leading
    assert (outcome.done, outcome.failed) == (2, 0)
    assert fleet.noted("ended")["shop:long/reasoner/0"] == 1


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_campaign_that_is_stopped_ends_what_runs_and_goes_on_later(fleet: Fleet) -> None:
    led = Led(fleet, _campaign(QUICK[0], LONG))
    first = fleet.hire("crane", long_s=600.0)
    leading = asyncio.ensure_future(led.conduct())
    await eventually(lambda: led.kept and "shop:long/reasoner/0" in fleet.noted("begun"))
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    await eventually(lambda: "shop:long/reasoner/0" in fleet.noted("ended"))
    first.terminate()
    fleet.hire("heron", long_s=0.1)
    outcome = await led.conduct()
    assert (outcome.before, outcome.done) == (1, 1)
    assert set(led.keeps.values()) == {1}
    assert fleet.noted("begun")["shop:quick_0/reasoner/0"] == 1


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_server_that_is_killed_and_comes_back_ends_nothing(
    fleet: Fleet, request: pytest.FixtureRequest
) -> None:
    led = Led(fleet, _campaign(LONG, *QUICK))
    fleet.hire("crane", at_once=2, long_s=3.0)
    leading = asyncio.ensure_future(led.conduct())
    await eventually(lambda: "shop:long/reasoner/0" in fleet.noted("begun"))
    await asyncio.to_thread(shared_server(request.config).restart)
    outcome = await leading
    assert (outcome.done, outcome.failed) == (5, 0)
    assert set(led.keeps.values()) == {1}


@pytest.mark.asyncio
async def test_nobody_begins_where_it_cannot_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = load_config(flags={"home": str(tmp_path)}, environ={}, cwd=tmp_path)
    with pytest.raises(UsageError, match="needs a store in PostgreSQL"):
        await lead_campaign(alone, campaign_of(Wanted("etcd", "node_kill")), tell=print)
    with pytest.raises(UsageError, match="needs a store in PostgreSQL"):
        await take_trials(alone, command=("operator",))
    assert not (tmp_path / "eval.db").exists()
    flags = {"home": str(tmp_path), "store": "postgresql://nobody@127.0.0.1:9/none"}
    config = load_config(flags=flags, environ={}, cwd=tmp_path)
    assert isinstance(trials_of(config, executor="x", version="1"), TrialQueue)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UsageError, match="cannot be called"):
        await take_trials(config, command=("operator",), name="a:b")
    with (tmp_path / f"operator-eval-{os.getuid()}-w.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConflictError, match="already running on this machine"):
            await take_trials(config, command=("operator",))
    with pytest.raises(StoreError, match="cannot start"):
        await take_trials(config, command=("operator",))

"""What spending promises: what thinking cost today, by model, whoever thought."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.run import Answer, Spent
from operator_sre.agent.transcript import answer_payload
from operator_sre.store import open_store
from operator_sre.store.maintenance import Maintenance
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.transaction import Rules
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import run_started, ticket
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


def _thought(spent: Spent, *, by: str = "", run: str = "run-1") -> Draft:
    return Draft(Kind.REASONING, answer_payload(Answer("so", (), spent, by=by)), run=run)


def _summed(spent: dict[str, float], by: str) -> Draft:
    return Draft(Kind.SUMMARY, {"of": 1, "text": "so", "by": by, "spent": spent}, run="run-1")


async def test_all_that_was_paid_for_counts_on_its_day(ports: Ports, clock: HeldClock) -> None:
    assert ports.spending.on(NOON) == {}
    await ports.journal.append(run_started(ticket(run="run-1")))
    await ports.journal.append(_thought(Spent(100, 20, 0.5)))
    await ports.journal.append(_thought(Spent(10, 2, 0.25)))
    await ports.journal.append(_thought(Spent(7, 1, 0.125), by="claude"))
    await ports.journal.append(_thought(Spent()))
    await ports.journal.append(_summed({"tokens_in": 5, "tokens_out": 1, "usd": 0.0}, "haiku"))
    expected = {
        "claude": Spent(7, 1, 0.125),
        "haiku": Spent(5, 1, 0.0),
        "reasoner": Spent(110, 22, 0.75),
    }
    assert ports.spending.on(NOON) == expected
    clock.advance(86_400.0)
    await ports.journal.append(_thought(Spent(1, 1, 0.5)))
    assert ports.spending.on(NOON) == expected
    assert ports.spending.on(clock.now()) == {"reasoner": Spent(1, 1, 0.5)}


async def test_a_turn_that_the_reasoner_took_over_was_paid_to_the_model_of_its_run(
    ports: Ports,
) -> None:
    start = run_started(ticket(run="run-1"))
    await ports.journal.append(replace(start, payload={**start.payload, "model": "claude"}))
    await ports.journal.append(_thought(Spent(100, 20, 0.5), by="reasoner"))
    await ports.journal.append(_thought(Spent(7, 1, 0.125), by="gpt"))
    assert ports.spending.on(NOON) == {
        "claude": Spent(100, 20, 0.5),
        "gpt": Spent(7, 1, 0.125),
    }


async def test_a_day_ends_at_midnight_in_greenwich(ports: Ports, clock: HeldClock) -> None:
    clock.advance(12 * 3600.0 - 1)
    await ports.journal.append(_thought(Spent(1, 0, 0.0), by="a"))
    clock.advance(2.0)
    await ports.journal.append(_thought(Spent(2, 0, 0.0), by="a"))
    assert ports.spending.on(NOON)["a"].tokens == 1
    assert ports.spending.on(NOON + timedelta(days=1))["a"].tokens == 2


async def test_it_survives_a_reopened_database(home: Home) -> None:
    await home.open().journal.append(_thought(Spent(1, 2, 0.5), by="a"))
    home.close()
    assert home.open().spending.on(NOON) == {"a": Spent(1, 2, 0.5)}


async def test_it_is_made_anew_from_the_ledger(tmp_path: Path) -> None:
    clock = HeldClock()
    path = tmp_path / "operator.db"
    store = open_store(path, clock=clock)
    for cents in range(1, 40):
        await store.journal.append(_thought(Spent(cents, 1, cents / 1000), by=f"m{cents % 3}"))
    before = store.spending.on(NOON)
    store.close()
    database = SqliteDatabase(path)
    maintenance = Maintenance(database=database, rules=Rules(clock), backups=tmp_path / "b")
    assert maintenance.rebuild(progress=lambda _: None) == ()
    connection = database.session()
    connection.execute("DELETE FROM spending WHERE model = 'm1'")
    connection.close()
    (difference,) = maintenance.rebuild(progress=lambda _: None)
    assert (difference.table, difference.missing) == ("spending", 1)
    store = open_store(path, clock=clock)
    assert store.spending.on(NOON) == before
    store.close()

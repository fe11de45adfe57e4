"""What a worker puts into the shared queue, without the queue's server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from operator_sre.engine import LocalEngine
from operator_sre.engine.cluster import ClusterEngine
from operator_sre.engine.queues import Errand
from tests.contract.samples import violation
from tests.contract.workshop import Script, Workshop

pytestmark = pytest.mark.asyncio


class _Queue:
    """Errands by their names; the same name twice is one, as in the real queue."""

    def __init__(self) -> None:
        self.errands: dict[str, Errand] = {}

    def find(self, *, begins: Sequence[str]) -> list[Errand]:
        """All of which the names begin so."""
        return [one for name, one in self.errands.items() if name.startswith(tuple(begins))]

    def add(self, errand: str, ticket: int, *, rank: int) -> None:
        """Once."""
        self.errands.setdefault(errand, Errand(errand, "", waits=True, runs=False))

    def end(self, *names: str) -> None:
        """These are over."""
        for name in names:
            self.errands[name] = Errand(name, "worker", waits=False, runs=False)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    """One workshop."""
    one = Workshop(tmp_path, Script())
    yield one
    one.close()


async def test_an_errand_never_has_the_name_of_one_that_is_over(shop: Workshop) -> None:
    local = LocalEngine(
        pipeline=shop.pipeline(),
        leases=shop.store.leases,
        clock=shop.clock,
        worker="worker",
        new_id=lambda: next(shop.new_id),
        interval_s=10.0,
    )
    engine = ClusterEngine(local, shop.store.backlog, shop.store.workers, url="")
    await shop.store.tickets.open([violation("node-1", "up")])
    queue: Any = _Queue()
    for _ in range(11):
        engine._fill(queue)
        queue.end(*queue.errands)
    first, *_, last = queue.errands
    assert (first[-2:], last[-3:]) == ("-0", "-10")
    for name in list(queue.errands)[:5]:
        del queue.errands[name]  # tidied away, as the oldest are
    engine._fill(queue)
    (waits,) = [one for one in queue.errands.values() if one.waits]
    assert waits.id == last[:-2] + "11"

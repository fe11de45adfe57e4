"""A shop whose nodes a test puts down, worked on by a mind that says what the test wants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from operator_protocols.domain.diagnosis import Evidence
from operator_protocols.domain.run import Answer, Diagnose
from operator_sre.agent.transcript import answer_payload
from operator_sre.app.wiring import App
from operator_sre.engine.local import LocalEngine
from tests.app.home import opened
from tests.contract.workshop import DIAGNOSIS
from tests.faces.receiver.world import SHOP, stock

__all__ = ["FOUND", "Shopkeeper", "shopkeeper"]

# A diagnosis that cites nothing, so that it is the same in every run.
CLAIM = (Evidence("node-1: it is down", None),)
FOUND = Diagnose(replace(DIAGNOSIS.diagnosis, evidence=CLAIM, timeline=()))


@dataclass(frozen=True, slots=True)
class Shopkeeper:
    """The home of a shop, and which of its nodes are down."""

    app: App
    down: set[str]

    async def carry(self, engine: LocalEngine | None = None) -> str:
        """Break a node, let it be found and worked on; the id of the run."""
        await self.break_one()
        assert await (engine or self.app.engine()).work_once()
        return self.newest()

    async def break_one(self) -> None:
        """Put a node down, and have it found."""
        self.down.add("node-1")
        await self.app.engine().pipeline.watch("shop")

    def newest(self) -> str:
        """The id of the newest run."""
        (run,) = self.app.store.runs.newest(limit=1)
        return run.id


@contextmanager
def shopkeeper(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *turns: Answer,
    policy: str = "version: 1\n",
    toml: str = "",
    model: str = "",
    mode: str = "execute",
) -> Iterator[Shopkeeper]:
    """One with this policy and these turns of a mind, which are the same in every run."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "turns.json"
    script.write_text(json.dumps([answer_payload(one) for one in turns]))
    (folder / "policy.yaml").write_text(policy)
    down = stock(monkeypatch)
    named = model or f"scripted:{script}"
    with opened(folder, f"deadline_s = 1\n{SHOP}{toml}", mode=mode, model=named) as app:
        yield Shopkeeper(app, down)

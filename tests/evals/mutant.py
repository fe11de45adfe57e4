"""The product with one thing wrong in it, for tests of the yardstick: `mutant.py NAME WORDS...`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from operator_protocols.domain.health import Health
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Answer, Ask, Escalate
from operator_protocols.domain.ticket import Ticket
from operator_sre.controls import Controls
from operator_sre.faces.cli.main import main
from operator_sre.models.baselines import RestartEverything
from operator_sre.models.reasoner.reasoner import Reasoner
from operator_sre.tickets.desk import Desk

__all__ = ["MUTANTS", "keep_ticket"]


def restart_without_looking() -> None:
    """It restarts every part, whatever was observed, and asks for no precondition."""
    baseline = RestartEverything()

    async def answer(self: Reasoner, ask: Ask) -> Answer:
        return await baseline.answer(ask)

    _replace(Reasoner, "answer", answer)
    _replace(Controls, "find_unmet", lambda *words: ())


def always_escalate() -> None:
    """It escalates every ticket at once."""

    async def answer(self: Reasoner, ask: Ask) -> Answer:
        return Answer("A person decides.", (Escalate("A person decides."),))

    _replace(Reasoner, "answer", answer)


def never_escalate() -> None:
    """It keeps every ticket that it cannot resolve."""
    close = Desk.close

    async def keep(
        self: Desk, ticket: Ticket, proof: Proof | None, *drafts: Any, **words: Any
    ) -> Ticket:
        if proof is None or not proof.held:
            await keep_ticket()
        return await close(self, ticket, proof, *drafts, **words)

    _replace(Desk, "close", keep)


async def keep_ticket() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


def claim_repairs() -> None:
    """It calls every incident resolved, and reports none again."""
    close, file = Desk.close, Desk.file

    async def lie(
        self: Desk, ticket: Ticket, proof: Proof | None, *drafts: Any, **words: Any
    ) -> Ticket:
        at = ticket.opened_at
        claimed = Proof(True, Health.HEALTHY, 2, at, at, 60.0, "Everything holds again.")
        return await close(self, ticket, claimed, *drafts, **words)

    async def ignore(
        self: Desk, violations: Sequence[Any], *words: Any, **named: Any
    ) -> Sequence[Ticket]:
        ended = [each for each in self._tickets.find() if each.state.value == "resolved"]
        return [] if ended else await file(self, violations, *words, **named)

    _replace(Desk, "close", lie)
    _replace(Desk, "file", ignore)


def _replace(owner: type, name: str, function: object) -> None:
    setattr(owner, name, function)


MUTANTS: Mapping[str, Callable[[], None]] = {
    "restart-without-looking": restart_without_looking,
    "always-escalate": always_escalate,
    "never-escalate": never_escalate,
    "claim-repairs": claim_repairs,
}

if __name__ == "__main__":
    MUTANTS[sys.argv[1]]()
    main(sys.argv[2:])

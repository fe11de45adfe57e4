"""The first command of an incident waits for nothing that could have been done before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Answer, Finish
from operator_protocols.domain.ticket import TicketState
from operator_sre.controls import Controls
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop


@pytest.mark.asyncio
async def test_what_the_first_command_needs_is_ready_before_the_agent_is_asked(
    tmp_path: Path,
) -> None:
    ready: list[int] = []

    class Hasty(Workshop):
        def controls(self, subject: str) -> Controls:
            controls = super().controls(subject)

            async def get_ready() -> None:
                ready.append(len(self.entries(Kind.REASONING)))

            return replace(controls, executor=replace(controls.executor, get_ready=get_ready))

    done = Answer("over", (Finish("I have repaired it"),))
    one = Hasty(tmp_path, Script(Answer("act", (DIAGNOSIS, MEND)), done))
    ended = await one.carry()
    assert (ended.state, ready) == (TicketState.RESOLVED, [0])
    one.close()

"""A message for people says how much it matters."""

from __future__ import annotations

import logging

import pytest

from operator_protocols.ports import Job
from operator_sre.executor.tools.general import LogMessage


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("level", "number"), [("info", 20), ("warning", 30), ("error", 40), ("", 20)]
)
async def test_a_message_has_a_level(
    level: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"text": "the disk\nfills", **({"level": level} if level else {})}
    with caplog.at_level(logging.INFO, logger="operator_sre.executor.tools.general"):
        result = await LogMessage().call(given, Job("j", 5.0))
    assert result.ok
    assert result.data["level"] == (level or "info")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (number, "message: the disk fills")
    ]


@pytest.mark.asyncio
async def test_an_unknown_level_is_refused() -> None:
    result = await LogMessage().call({"text": "x", "level": "loud"}, Job("j", 5.0))
    assert (result.ok, result.exit_code) == (False, 2)
    assert "info, warning, error" in result.stderr

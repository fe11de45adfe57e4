"""The plug-in keeps what every plug-in promises."""

from __future__ import annotations

import asyncio

from operator_protocols.promises import broken_promises
from operator_subject_redis import plugin


def test_it_keeps_its_promises() -> None:
    assert asyncio.run(broken_promises(plugin)) == []

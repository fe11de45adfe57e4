"""Containers of this home, found by their label and ended through the API of the engine."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass

import msgspec

from operator_sre.executor.docker import Address, Engine, EngineError, address_here

__all__ = ["LABEL", "ContainersEnded", "end_containers"]

LABEL = "operator-sre.home"
ANSWER_S_MAX = 5.0
NOT_FOUND, CONFLICT = 404, 409
_ID = re.compile(r"[0-9a-f]{12,64}")


@dataclass(frozen=True, slots=True)
class ContainersEnded:
    """Which containers were ended, or why none could be looked for."""

    ended: tuple[str, ...] = ()
    note: str = ""


class _Listed(msgspec.Struct, rename="pascal"):
    id: str


async def end_containers(home: str, address: Address | None = None) -> ContainersEnded:
    """End every container that carries the label of this home, within a few seconds."""
    where = address or address_here()
    if where.is_missing:
        return ContainersEnded(note="there is no Docker engine")
    engine = Engine(where)
    try:
        # Includes created containers: another process may be about to start them.
        parameters = {"all": "true", "filters": json.dumps({"label": [f"{LABEL}={home}"]})}
        answer = await engine.ask(
            "GET", "/containers/json", parameters=parameters, timeout_s=ANSWER_S_MAX / 2
        )
        if not answer.ok:
            raise EngineError(f"Docker refused: {answer.message}")
        names = tuple(each.id for each in answer.read(list[_Listed]) if _ID.fullmatch(each.id))
    except EngineError as error:
        return ContainersEnded(note=f"Docker did not answer: {error.message}")
    removed = await asyncio.gather(*(_end(engine, name) for name in names))
    left = [name[:12] for name, is_ended in zip(names, removed, strict=True) if not is_ended]
    return ContainersEnded(
        ended=tuple(name for name, is_ended in zip(names, removed, strict=True) if is_ended),
        note=f"Docker did not remove {', '.join(left)}" if left else "",
    )


async def _end(engine: Engine, name: str) -> bool:
    """Kill and remove it. A container that is already being removed counts as removed."""
    try:
        answer = await engine.ask(
            "DELETE",
            f"/containers/{name}",
            parameters={"force": "true", "v": "true"},
            timeout_s=ANSWER_S_MAX / 2,
        )
    except EngineError:
        return False
    return answer.ok or answer.status in (NOT_FOUND, CONFLICT)

"""Beginning the log of a part anew, where it lies on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from operator_protocols.domain.category import FailureCategory
from operator_protocols.rotating import rotate
from operator_sre.subjects.tikv.deed import Deed, Done, Refusal
from operator_sre.subjects.tikv.kinds import PD, STORE

__all__ = ["rotate_log"]

MB = 1 << 20


async def rotate_log(deed: Deed) -> Done:
    """A copy first, and only then less of it; a log on another machine is not ours to cut."""
    name = deed.text("target")
    stores = {one.name for one in deed.settings.targets() if one.kind == STORE}
    target = deed.target(name, STORE if name in stores else PD)
    if not target.log or target.runs_at:
        why = f"The log of {target.name} is not on this machine."
        raise Refusal(why, FailureCategory.PERMISSION)
    deed.begin()
    before, copy = await asyncio.to_thread(rotate, Path(target.log))
    return Done(
        f"The log of {target.name} begins anew; its {before / MB:.0f} MB are kept in {copy}.",
        {"changed": True, "before_bytes": before, "copy": copy},
    )

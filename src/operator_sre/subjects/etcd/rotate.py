"""Beginning the log of a member anew, where it lies on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.tool import Parameter, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.rotating import rotate
from operator_sre.subjects.etcd.deed import Deed, Done, Refusal

__all__ = ["ROTATE_LOG", "rotate_log"]

MB = 1 << 20

ROTATE_LOG = ToolSpec(
    name="rotate_log",
    sentence="Keep what the log of one member holds in a compressed copy, and begin it anew.",
    parameters=(Parameter("target", "the member", infers="target"),),
    source=ToolSource.SUBJECT,
    risk=Risk.LOW,
    changes=True,
    expected="That its log is short; the last three copies lie beside it.",
    verify="log_oversized holds at it.",
    timeout_s=120.0,
    ends=("log_long",),
)


async def rotate_log(deed: Deed) -> Done:
    """A copy first, and only then less of it; a log on another machine is not ours to cut."""
    target = deed.glimpse(deed.text("target")).target
    if not target.log or target.runs_at:
        why = f"The log of {target.name} is not on this machine."
        raise Refusal(why, FailureCategory.PERMISSION)
    before, copy = await asyncio.to_thread(rotate, Path(target.log))
    return Done(
        f"The log of {target.name} begins anew; its {before / MB:.0f} MB are kept in {copy}.",
        {"changed": True, "before_bytes": before, "copy": copy},
    )

"""What can be done to a TiKV cluster: through PD, beside a store, or by starting a part again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from operator_protocols.domain.tool import ToolSpec
from operator_protocols.ports import SubjectSettings, Tool
from operator_sre.subjects.tikv import specs
from operator_sre.subjects.tikv.deed import Deed, Done, TikvTool
from operator_sre.subjects.tikv.tools_logs import rotate_log
from operator_sre.subjects.tikv.tools_pd import restart_pd
from operator_sre.subjects.tikv.tools_regions import (
    cancel_operator,
    merge_region,
    split_region,
    transfer_leader,
    transfer_peer,
)
from operator_sre.subjects.tikv.tools_schedulers import (
    add_scheduler,
    pause_scheduler,
    remove_scheduler,
    resume_scheduler,
)
from operator_sre.subjects.tikv.tools_stores import (
    compact_store,
    drain_store,
    restart_store,
    undrain_store,
)

__all__ = ["tikv_tools"]

_ACTS: tuple[tuple[ToolSpec, Callable[[Deed], Awaitable[Done]]], ...] = (
    (specs.TRANSFER_LEADER, transfer_leader),
    (specs.TRANSFER_PEER, transfer_peer),
    (specs.DRAIN_STORE, drain_store),
    (specs.UNDRAIN_STORE, undrain_store),
    (specs.SPLIT_REGION, split_region),
    (specs.MERGE_REGION, merge_region),
    (specs.COMPACT_STORE, compact_store),
    (specs.PAUSE_SCHEDULER, pause_scheduler),
    (specs.RESUME_SCHEDULER, resume_scheduler),
    (specs.ADD_SCHEDULER, add_scheduler),
    (specs.REMOVE_SCHEDULER, remove_scheduler),
    (specs.CANCEL_OPERATOR, cancel_operator),
    (specs.RESTART_STORE, restart_store),
    (specs.RESTART_PD, restart_pd),
    (specs.ROTATE_LOG, rotate_log),
)


def tikv_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All of them, for one cluster."""
    return tuple(TikvTool(spec, settings, act) for spec, act in _ACTS)

"""What ends a trouble of a TiKV cluster, and what it costs. Data."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.action import Argument
from operator_protocols.domain.cause import Remedy
from operator_protocols.domain.verdict import Risk

__all__ = [
    "ADD_SCHEDULER",
    "CANCEL",
    "DRAIN",
    "MOVE_HOT",
    "REMOVE_SCHEDULER",
    "RESTART_PD",
    "RESTART_STORE",
    "RESUME",
    "RESUME_SCHEDULER",
    "ROTATE",
    "SPLIT_HOT",
    "UNDRAIN",
]


def _remedy(
    tool: str,
    sentence: str,
    trade_off: str,
    risk: Risk,
    *,
    reversible: bool = False,
    arguments: Mapping[str, Argument] | None = None,
) -> Remedy:
    return Remedy(tool, sentence, trade_off, risk, reversible, arguments or {})


RESTART_STORE = _remedy(
    "restart_store",
    "start it again",
    "its regions have a copy less until it has caught up",
    Risk.MEDIUM,
)
RESTART_PD = _remedy(
    "restart_pd", "start it again", "the other members decide without it meanwhile", Risk.MEDIUM
)
RESUME = _remedy(
    "resume_node",
    "let it go on where it was stopped",
    "it goes on with whatever it was doing, and its peers may have elected others",
    Risk.LOW,
    reversible=True,
)
DRAIN = _remedy(
    "drain_store",
    "have the other stores lead its regions",
    "the others do its work until it is let lead again, and it stays to be mended by people",
    Risk.HIGH,
    reversible=True,
)
UNDRAIN = _remedy(
    "undrain_store",
    "let it lead regions again",
    "leaders move back to it",
    Risk.LOW,
    reversible=True,
)
RESUME_SCHEDULER = _remedy(
    "resume_scheduler",
    "let the scheduler go on",
    "PD moves leaders and copies, within its limits",
    Risk.LOW,
    reversible=True,
    arguments={"name": "{balance_paused}"},
)
ADD_SCHEDULER = _remedy(
    "add_scheduler",
    "give PD the scheduler back that it has by default",
    "PD moves leaders and copies, within its limits",
    Risk.MEDIUM,
    arguments={"name": "{balance_missing}"},
)
REMOVE_SCHEDULER = _remedy(
    "remove_scheduler",
    "remove the scheduler that somebody left behind",
    "whoever added it has to add it again",
    Risk.MEDIUM,
    arguments={"name": "{scheduler_stray}"},
)
CANCEL = _remedy(
    "cancel_operator",
    "have PD give that operator up",
    "the region stays as it is until PD plans anew",
    Risk.MEDIUM,
)
MOVE_HOT = _remedy(
    "transfer_leader",
    "let a store with less to do lead the hot region",
    "requests for that region wait for a moment",
    Risk.MEDIUM,
    reversible=True,
)
SPLIT_HOT = _remedy(
    "split_region",
    "split the hot region, so that its halves can be led by different stores",
    "there is one region more, and what is hot may be a single key",
    Risk.MEDIUM,
)
ROTATE = _remedy(
    "rotate_log",
    "keep a compressed copy of its log and begin it anew",
    "what is written in that moment is lost, and it grows again while its reason stays",
    Risk.LOW,
)

"""What a mind, the gate and people are told of the tools of TiKV. Data."""

from __future__ import annotations

from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_sre.subjects.tikv.live import DEFAULTS

__all__ = [
    "ADD_SCHEDULER",
    "CANCEL_OPERATOR",
    "COMPACT_STORE",
    "DRAIN_STORE",
    "MERGE_REGION",
    "PAUSE_SCHEDULER",
    "REMOVE_SCHEDULER",
    "RESTART_PD",
    "RESTART_STORE",
    "RESUME_SCHEDULER",
    "ROTATE_LOG",
    "SPLIT_REGION",
    "TRANSFER_LEADER",
    "TRANSFER_PEER",
    "UNDRAIN_STORE",
]

ID_MAX = 2**63 - 1
PAUSE_S_MAX = 86_400
_STORE = Parameter("target", "the store", infers="target")
_REGION = Parameter(
    "region", "the id of the region", ParameterType.INTEGER, minimum=1, maximum=ID_MAX
)
_HOTTEST = Parameter(
    "region",
    "the id of the region; the one that is hottest now when it is not named",
    ParameterType.INTEGER,
    required=False,
    minimum=1,
    maximum=ID_MAX,
)
_SCHEDULER = Parameter("name", "the name of the scheduler, as PD lists it")


def _store(name: str, sentence: str) -> Parameter:
    return Parameter(name, f"{sentence}: its name, or its id in digits")


TRANSFER_LEADER = ToolSpec(
    name="transfer_leader",
    sentence="Let the copy of one region on another store lead it.",
    parameters=(
        _HOTTEST,
        Parameter(
            "to",
            "the store that is to lead it: its name, or its id in digits; of those that can, the"
            " one with the fewest leaders when it is not named",
            required=False,
        ),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="transfer_leader",
    expected="That requests for this region wait for a moment and go to that store.",
    verify="PD names that store as the leader of the region, within a minute.",
    timeout_s=60.0,
    ends=("region_hot",),
)

TRANSFER_PEER = ToolSpec(
    name="transfer_peer",
    sentence="Move one copy of a region from one store to another one.",
    parameters=(
        _REGION,
        _store("source", "the store that holds it now"),
        _store("to", "the store that is to hold it"),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.HIGH,
    changes=True,
    reversible=True,
    undo="transfer_peer",
    expected="That a snapshot is sent to the new store before the old copy is removed.",
    verify="The region has a voter there that lags behind nobody, and none at the old store.",
    timeout_s=300.0,
)

DRAIN_STORE = ToolSpec(
    name="drain_store",
    sentence="Drive the leaders of all regions away from one store (evict-leader-scheduler).",
    parameters=(_STORE,),
    source=ToolSource.SUBJECT,
    risk=Risk.HIGH,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="undrain_store",
    expected="That it leads nothing and gets no leader until undrain_store; the others do more.",
    verify="Its leader_count goes down to 0.",
    timeout_s=300.0,
    ends=("disk_slow",),
    plans=("leader_imbalance",),
)

UNDRAIN_STORE = ToolSpec(
    name="undrain_store",
    sentence="Let one store lead regions again: its evict-leader-scheduler is removed.",
    parameters=(_STORE,),
    source=ToolSource.SUBJECT,
    risk=Risk.LOW,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="drain_store",
    expected="That PD moves leaders back to it by and by.",
    verify="PD lists no scheduler that names it.",
    timeout_s=60.0,
    ends=("eviction_left",),
)

SPLIT_REGION = ToolSpec(
    name="split_region",
    sentence="Split one region into two of about the same size, which PD can move apart.",
    parameters=(
        _HOTTEST,
        Parameter(
            "policy",
            "approximate by what is known of its files, or scan all of its keys",
            required=False,
            default="approximate",
            choices=("approximate", "scan"),
        ),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    undo="merge_region",
    expected="That there is one region more; clients learn of it by an error that they retry.",
    verify="The version of the region went up, and it ends at another key.",
    timeout_s=120.0,
    ends=("region_hot",),
)

MERGE_REGION = ToolSpec(
    name="merge_region",
    sentence="Merge one region into the one beside it.",
    parameters=(
        Parameter(
            "source",
            "the id of the region that goes",
            ParameterType.INTEGER,
            minimum=1,
            maximum=ID_MAX,
        ),
        Parameter(
            "into",
            "the id of the one beside it that stays",
            ParameterType.INTEGER,
            minimum=1,
            maximum=ID_MAX,
        ),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.HIGH,
    changes=True,
    expected="That its copies move to the stores of the other one first; neither splits meanwhile.",
    verify="PD knows the source no more, and the other one holds its keys.",
    timeout_s=300.0,
)

COMPACT_STORE = ToolSpec(
    name="compact_store",
    sentence="Have one store rewrite its files without what was deleted (tikv-ctl compact).",
    parameters=(
        _STORE,
        Parameter(
            "cf",
            "the column family",
            required=False,
            default="write",
            choices=("default", "lock", "write"),
        ),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That its disk and processors are busy for a while, and its files smaller after that.",
    verify="tikv-ctl ends without an error, and PD still calls the store Up.",
    timeout_s=600.0,
)

PAUSE_SCHEDULER = ToolSpec(
    name="pause_scheduler",
    sentence="Have one scheduler of PD rest for some time; it goes on by itself after that.",
    parameters=(
        _SCHEDULER,
        Parameter(
            "seconds",
            "for how many seconds, a day at most",
            ParameterType.INTEGER,
            required=False,
            default=600,
            minimum=1,
            maximum=PAUSE_S_MAX,
        ),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="resume_scheduler",
    expected="That what it balances drifts meanwhile.",
    verify="PD lists it among those that are paused.",
    timeout_s=60.0,
)

RESUME_SCHEDULER = ToolSpec(
    name="resume_scheduler",
    sentence="Let one scheduler of PD go on that was paused.",
    parameters=(_SCHEDULER,),
    source=ToolSource.SUBJECT,
    risk=Risk.LOW,
    changes=True,
    reversible=True,
    idempotent=True,
    undo="pause_scheduler",
    expected="That PD moves what it balances, within its limits.",
    verify="PD lists it, and not among those that are paused.",
    timeout_s=60.0,
    ends=("balance_paused",),
)

ADD_SCHEDULER = ToolSpec(
    name="add_scheduler",
    sentence="Give PD back one of the schedulers that it has by default.",
    parameters=(Parameter("name", "its name", choices=DEFAULTS),),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That PD moves what it balances, within its limits.",
    verify="PD lists it.",
    timeout_s=60.0,
    ends=("balance_missing",),
)

REMOVE_SCHEDULER = ToolSpec(
    name="remove_scheduler",
    sentence="Remove a scheduler that somebody added and left behind.",
    parameters=(_SCHEDULER,),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That PD balances again what it kept out of balance.",
    verify="PD lists it no more.",
    timeout_s=60.0,
    ends=("scheduler_stray",),
)

CANCEL_OPERATOR = ToolSpec(
    name="cancel_operator",
    sentence="Cancel what PD has had one region do for too long.",
    parameters=(
        Parameter(
            "region",
            "the id of the region; the one that is stuck for longest when it is not named",
            ParameterType.INTEGER,
            required=False,
            minimum=1,
            maximum=ID_MAX,
        ),
    ),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    idempotent=True,
    expected="That the region stays as it is; PD plans anew where that is not right.",
    verify="PD lists no such operator any more.",
    timeout_s=60.0,
    ends=("operator_stuck",),
)

RESTART_STORE = ToolSpec(
    name="restart_store",
    sentence="Restart one store; one that serves is drained first and gets its leaders back.",
    parameters=(_STORE,),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    expected="That it is away for a moment; its regions have two copies meanwhile.",
    verify="PD calls it Up, with a start time of its own that is new.",
    timeout_s=300.0,
)

RESTART_PD = ToolSpec(
    name="restart_pd",
    sentence="Restart one member of PD; one that leads hands over first.",
    parameters=(Parameter("target", "the member of PD", infers="target"),),
    source=ToolSource.SUBJECT,
    risk=Risk.MEDIUM,
    changes=True,
    expected="That it is away for a moment, while the others decide without it.",
    verify="It answers, and follows a leader or leads.",
    timeout_s=180.0,
)

ROTATE_LOG = ToolSpec(
    name="rotate_log",
    sentence="Keep what the log of one part holds in a compressed copy, and begin it anew.",
    parameters=(Parameter("target", "the store, or the member of PD", infers="target"),),
    source=ToolSource.SUBJECT,
    risk=Risk.LOW,
    changes=True,
    expected="That its log is short; the last three copies lie beside it.",
    verify="log_oversized holds at it.",
    timeout_s=120.0,
    ends=("log_long",),
)

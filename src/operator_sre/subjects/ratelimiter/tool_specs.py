"""What minds, the gate and people are told of the tools of a rate limiter. Data."""

from __future__ import annotations

from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec
from operator_protocols.domain.verdict import Risk

__all__ = [
    "ALIGN_NODE",
    "BLOCK_KEY",
    "CONFIGURE_NODE",
    "DRAIN_NODE",
    "EXPIRE_COUNTERS",
    "FAIL_OVER",
    "FOLLOW_PRIMARY",
    "REMOVE_LIMIT",
    "RESET_COUNTER",
    "RESUME_WRITES",
    "ROTATE_LOG",
    "SET_STORE_SETTING",
    "UNBLOCK_KEY",
    "UNDRAIN_NODE",
    "UPDATE_LIMIT",
]

TOOL_S_MAX = 30.0
LIMIT_MAX = 1_000_000

_KEY = Parameter("key", "the key of a caller", infers="key")
_NODE = Parameter("target", "the name of a node", infers="target")
_STORE = Parameter("target", "the name of a store or replica", infers="target")
_PART = Parameter("target", "the name of a node, store or sentinel", infers="target")
_WHY = Parameter("reason", "why, for whoever sees it later", required=False, default="")
_ANY = Parameter(
    "target", "where it was seen; it makes no difference", required=False, default=None
)


def _spec(
    name: str,
    sentence: str,
    parameters: tuple[Parameter, ...],
    risk: Risk,
    *,
    expected: str,
    verify: str,
    undo: str = "",
    ends: tuple[str, ...] = (),
    plans: tuple[str, ...] = (),
    idempotent: bool = True,
) -> ToolSpec:
    return ToolSpec(
        name=name,
        sentence=sentence,
        parameters=parameters,
        risk=risk,
        changes=True,
        reversible=bool(undo),
        source=ToolSource.SUBJECT,
        idempotent=idempotent,
        undo=undo,
        expected=expected,
        verify=verify,
        timeout_s=TOOL_S_MAX,
        ends=ends,
        plans=plans,
    )


RESET_COUNTER = _spec(
    "reset_counter",
    "Empty the window of one key; what its callers asked for until now no longer counts.",
    (_KEY, _ANY),
    Risk.MEDIUM,
    expected="the key counts from zero",
    verify="counter_drift and over_limit hold for the key",
    ends=("counter_drifted",),
)
EXPIRE_COUNTERS = _spec(
    "expire_counters",
    "Let every window that would stay for ever end after one window.",
    (_ANY,),
    Risk.LOW,
    expected="the windows are gone after one window, unless they are asked for",
    verify="keys_without_ttl holds",
    ends=("windows_never_expire",),
)
UPDATE_LIMIT = _spec(
    "update_limit",
    "Give one key its own limit.",
    (
        _KEY,
        Parameter(
            *("limit", "requests that one window may hold", ParameterType.INTEGER),
            minimum=0,
            maximum=LIMIT_MAX,
        ),
        _ANY,
    ),
    Risk.MEDIUM,
    undo="update_limit",
    expected="every node enforces the limit with the next check",
    verify="the API of any node tells the limit of the key",
    ends=("limit_changed_behind_us",),
)
REMOVE_LIMIT = _spec(
    "remove_limit",
    "Let the default limit hold for one key again.",
    (_KEY, _ANY),
    Risk.MEDIUM,
    undo="update_limit",
    expected="the key has the default limit",
    verify="the API of any node tells the limit of the key",
)
BLOCK_KEY = _spec(
    "block_key",
    "Refuse every request of one key.",
    (_KEY, _WHY, _ANY),
    Risk.MEDIUM,
    undo="unblock_key",
    expected="every check of the key is answered with 429",
    verify="hot_key holds after one window",
    ends=("one_caller_floods",),
)
UNBLOCK_KEY = _spec(
    "unblock_key",
    "Let the limit of one key decide again.",
    (_KEY, _ANY),
    Risk.LOW,
    undo="block_key",
    expected="the limit of the key decides",
    verify="the list of blocks has the key no longer",
)
DRAIN_NODE = _spec(
    "drain_node",
    "Let one node take no more checks; callers are sent to the others.",
    (_NODE, _WHY),
    Risk.MEDIUM,
    undo="undrain_node",
    expected="the node answers checks with 503 and everything else as before",
    verify="the status of the node is 'draining'",
    plans=("node_draining",),
)
UNDRAIN_NODE = _spec(
    "undrain_node",
    "Let one node take checks again.",
    (_NODE,),
    Risk.LOW,
    undo="drain_node",
    expected="the status of the node is 'up'",
    verify="node_draining holds",
    ends=("drained_and_forgotten",),
)
CONFIGURE_NODE = _spec(
    "configure_node",
    "Change the configuration of one node, at once and in its file.",
    (
        _NODE,
        Parameter(
            *("default_limit", "requests a window may hold", ParameterType.INTEGER),
            required=False,
            minimum=0,
            maximum=LIMIT_MAX,
        ),
        Parameter("window_s", "length of the window", ParameterType.NUMBER, required=False),
        Parameter("key_prefix", "start of every name in the store", required=False),
        Parameter(
            *("on_store_loss", "what a check answers without a store"),
            required=False,
            choices=("fail_open", "fail_closed"),
        ),
    ),
    Risk.MEDIUM,
    undo="configure_node",
    expected="the node works with the new values",
    verify="limits_differ and configuration_drift hold",
)
ALIGN_NODE = _spec(
    "align_node",
    "Configure one node like all the others, which have to agree.",
    (_NODE,),
    Risk.MEDIUM,
    undo="configure_node",
    expected="the node has the limits and the prefix of the others",
    verify="limits_differ and configuration_drift hold",
    ends=("node_configured_differently", "node_counts_elsewhere"),
)
SET_STORE_SETTING = _spec(
    "set_store_setting",
    "Change one setting of a store while it runs.",
    (
        _STORE,
        Parameter(
            *("setting", "its name"),
            choices=(
                *("maxmemory", "maxmemory-policy", "min-replicas-to-write"),
                *("maxclients", "stop-writes-on-bgsave-error"),
            ),
        ),
        Parameter("value", "its new value"),
    ),
    Risk.MEDIUM,
    undo="set_store_setting",
    expected="the store works with the new value",
    verify="store_refuses_writes and configuration_drift hold",
    ends=("store_out_of_memory", "store_wants_replicas", "store_configured_differently"),
)
RESUME_WRITES = _spec(
    "resume_writes",
    "End the pause of all clients of a store.",
    (_STORE,),
    Risk.LOW,
    expected="writes that waited are done",
    verify="store_refuses_writes holds",
    ends=("writes_paused",),
)
FOLLOW_PRIMARY = _spec(
    "follow_primary",
    "Make a store a replica of the primary that nodes use; what only it holds is lost.",
    (_STORE,),
    Risk.HIGH,
    expected="there is one primary, and this store follows it",
    verify="primary_count and replication hold",
    ends=("second_primary",),
)
FAIL_OVER = _spec(
    "fail_over",
    "Let the sentinels make the replica the primary; the last moment of writes may be lost.",
    (_ANY,),
    Risk.HIGH,
    idempotent=False,
    expected="another store is the primary, and nodes follow within seconds",
    verify="redis_disconnected and primary_count hold",
)
ROTATE_LOG = _spec(
    "rotate_log",
    "Keep what the log of one part holds in a compressed copy, and begin it anew.",
    (_PART,),
    Risk.LOW,
    idempotent=False,
    expected="its log is short; the last three copies lie beside it",
    verify="log_size holds",
    ends=("log_long",),
)

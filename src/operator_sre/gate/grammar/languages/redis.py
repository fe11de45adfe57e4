"""The commands of Redis and Valkey that only read, word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from operator_sre.gate.grammar.languages.reason import TEXT_CHARACTERS_MAX, TOO_LONG, quote_word

__all__ = ["redis"]

_READS = frozenset(
    """
    bitcount bitfield_ro bitpos dbsize dump echo exists expiretime geodist geohash geopos
    georadius_ro georadiusbymember_ro geosearch get getbit getrange hexists hexpiretime hget
    hgetall hkeys hlen hmget hpexpiretime hpttl hrandfield hscan hstrlen httl hvals info lastsave
    lcs lindex llen lolwut lpos lrange mget ping pexpiretime pttl randomkey role scan scard sdiff
    sinter sintercard sismember smembers smismember sort_ro srandmember sscan strlen substr sunion
    time ttl type xlen xpending xrange xrevrange zcard zcount zdiff zinter zintercard zlexcount
    zmscore zrandmember zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex
    zrevrangebyscore zrevrank zscan zscore zunion
    bf.card bf.exists bf.info bf.mexists cf.count cf.exists cf.info cms.info cms.query ft._list
    ft.explain ft.info json.arrindex json.arrlen json.get json.mget json.objkeys json.objlen
    json.resp json.strlen json.type topk.info topk.list ts.get ts.info ts.mget ts.mrange
    ts.queryindex ts.range ts.revrange
    """.split()  # noqa: SIM905
)
_PARTS: dict[str, frozenset[str]] = {
    verb: frozenset(parts.split())
    for verb, parts in {
        "acl": "cat dryrun help users whoami",
        "client": "getname getredir help id info list trackinginfo",
        "cluster": """
            count-failure-reports countkeysinslot getkeysinslot help info keyslot links myid
            myshardid nodes replicas shards slaves slot-stats slots
            """,
        "command": "count docs getkeys getkeysandflags help info list",
        "function": "help list stats",
        "latency": "doctor graph help histogram history latest",
        "memory": "doctor help malloc-stats stats usage",
        "module": "help list",
        "object": "encoding freq help idletime refcount",
        "pubsub": "channels help numpat numsub shardchannels shardnumsub",
        "script": "exists help",
        "sentinel": """
            ckquorum get-master-addr-by-name help info-cache is-master-down-by-addr master masters
            myid replicas sentinels slaves
            """,
        "slowlog": "get help len",
        "xinfo": "consumers groups help stream",
    }.items()
}
_REASONS: dict[str, str] = {
    "acl": "!ACL changes permissions.",
    "auth": "?AUTH carries a password.",
    "bgrewriteaof": "BGREWRITEAOF makes the server rewrite its log.",
    "bgsave": "BGSAVE makes the server write its data to disk.",
    "client": "!CLIENT changes or closes connections.",
    "cluster": "!CLUSTER changes the cluster.",
    "config": "!CONFIG changes the server.",
    "debug": "!DEBUG can stop or crash the server.",
    "del": "!DEL removes keys.",
    "eval": "!EVAL runs a script in the server.",
    "eval_ro": "!EVAL_RO runs a script in the server.",
    "evalsha": "!EVALSHA runs a script in the server.",
    "evalsha_ro": "!EVALSHA_RO runs a script in the server.",
    "failover": "!FAILOVER changes which server leads.",
    "fcall": "!FCALL runs a function in the server.",
    "fcall_ro": "!FCALL_RO runs a function in the server.",
    "flushall": "!FLUSHALL removes every key.",
    "flushdb": "!FLUSHDB removes every key of a database.",
    "function": "!FUNCTION changes the code in the server.",
    "keys": "KEYS walks every key and stalls the server; SCAN does not.",
    "migrate": "!MIGRATE moves keys to another server.",
    "module": "!MODULE loads or unloads code.",
    "monitor": "MONITOR slows the server down and never ends.",
    "pfcount": "PFCOUNT may rewrite the key that it counts.",
    "psubscribe": "PSUBSCRIBE never ends.",
    "psync": "PSYNC starts a replication that never ends.",
    "replicaof": "!REPLICAOF replaces the data of the server with that of another.",
    "save": "SAVE stalls the server while it writes its data to disk.",
    "script": "!SCRIPT changes the scripts in the server.",
    "shutdown": "!SHUTDOWN stops the server.",
    "slaveof": "!SLAVEOF replaces the data of the server with that of another.",
    "sort": "SORT can store its result; SORT_RO cannot.",
    "subscribe": "SUBSCRIBE never ends.",
    "swapdb": "!SWAPDB exchanges two databases.",
    "sync": "SYNC starts a replication that never ends.",
    "touch": "TOUCH changes when a key was last used.",
    "unlink": "!UNLINK removes keys.",
    "wait": "WAIT blocks the connection until replicas have acknowledged the writes.",
    "waitaof": "WAITAOF blocks the connection until the writes are on disk.",
}
_ACL_SECRET = frozenset({"getuser", "list"})
_SETTINGS_SECRET = (
    "masterauth",
    "primaryauth",
    "requirepass",
    "sentinel-pass",
    "tls-client-key-file-pass",
    "tls-key-file-pass",
)
_PATTERN = re.compile(r"[a-z0-9_.*?-]{1,64}")
_KEY_SECRET = re.compile(r"passw|passphrase|secret|credential|(?:api|private|access)[_-]?key", re.I)
_NAMES_ONLY = frozenset({"exists", "expiretime", "pexpiretime", "pttl", "strlen", "ttl", "type"})


def redis(words: Sequence[str]) -> str | None:
    """Why this command is not proven to only read; None when it is."""
    if sum(map(len, words)) > TEXT_CHARACTERS_MAX:
        return TOO_LONG
    if not words:
        return "Without a command, the client is interactive."
    verb = words[0].lower()
    if verb in _READS:
        if verb not in _NAMES_ONLY and any(map(_KEY_SECRET.search, words[1:])):
            return "?The value of this key may be secret."
        return None
    part = words[1].lower() if len(words) > 1 else ""
    if verb in _PARTS:
        if part == "is-master-down-by-addr" and words[5:] != ["*"]:
            return "With the name of a leader, the sentinel votes for it."
        if part in _PARTS[verb] or (verb == "command" and not part):
            return None
        if verb == "acl" and part in _ACL_SECRET:
            return "?The rights of a user are shown with the hash of the password."
        if verb == "acl" and part == "log" and all(word.isdigit() for word in words[2:]):
            return None
        named = f"{verb.upper()} {part.upper()}"
        return _REASONS.get(verb, f"The command {quote_word(named)} is not known to only read.")
    if verb == "config" and part in ("get", "help"):
        for pattern in map(str.lower, words[2:]):
            if not _PATTERN.fullmatch(pattern):
                return "?This pattern of settings is not understood and may match a password."
            for setting in _SETTINGS_SECRET:
                if fnmatchcase(setting, pattern):  # it has stars and question marks only
                    return f"?The setting '{setting}' is a password."
        return None
    if verb == "xread":
        waits = any(word.lower() == "block" for word in words)
        return "XREAD with BLOCK waits." if waits else None
    return _REASONS.get(verb, f"The command {quote_word(words[0])} is not known to only read.")

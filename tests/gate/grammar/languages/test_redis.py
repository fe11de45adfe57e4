"""Redis: the commands that only read, with their parts; nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operator_sre.gate.grammar.languages.redis import redis
from tests.every import every

READS = """
PING | ping hello | INFO | info memory | DBSIZE | GET page:home | TTL a | PTTL a | TYPE a
EXISTS a b | STRLEN a | LLEN queue | LRANGE queue 0 10 | SMEMBERS s | SCARD s | HGETALL h
HGET h f | HLEN h | ZRANGE z 0 -1 WITHSCORES | ZCARD z | ZSCORE z m | SCAN 0 MATCH a* COUNT 100
HSCAN h 0 | SSCAN s 0 | ZSCAN z 0 | CLIENT LIST | client list TYPE normal | CLIENT INFO
CLIENT GETNAME | CLUSTER INFO | cluster nodes | CLUSTER SHARDS | CLUSTER KEYSLOT a
CONFIG GET maxmemory | CONFIG GET max* | config get save appendonly | MEMORY STATS
MEMORY USAGE a | MEMORY DOCTOR | SLOWLOG GET 10 | SLOWLOG LEN | LATENCY LATEST
LATENCY HISTORY command | LATENCY DOCTOR | OBJECT ENCODING a | OBJECT IDLETIME a | XLEN x
XRANGE x - + COUNT 5 | XINFO STREAM x | XINFO GROUPS x | XPENDING x g | XREAD COUNT 2 STREAMS x 0
ACL WHOAMI | ACL CAT | ACL LOG 5 | ACL USERS | COMMAND | COMMAND COUNT | COMMAND DOCS get | TIME
ROLE | LASTSAVE | PUBSUB CHANNELS | PUBSUB NUMSUB a | MODULE LIST | SORT_RO a | BITCOUNT a
GEORADIUS_RO g 1 1 1 km | EXPIRETIME a | SENTINEL masters | sentinel get-master-addr-by-name m
FUNCTION STATS | SCRIPT EXISTS abc | RANDOMKEY | JSON.GET doc | TS.INFO t | TTL user:password
"""
REFUSED = [
    ("sentinel is-master-down-by-addr 192.0.2.4 6379 9 abc", "With the name"),
    ("SENTINEL IS-MASTER-DOWN-BY-ADDR 192.0.2.4 6379 9", "With the name"),
    ("SET a b", "The command 'SET'"),
    ("DEL a", "!DEL"),
    ("unlink a", "!UNLINK"),
    ("EXPIRE a 1", "The command"),
    ("GETDEL a", "The command"),
    ("GETEX a", "The command"),
    ("GETSET a b", "The command"),
    ("KEYS *", "KEYS walks every key and stalls the server; SCAN does not."),
    ("MONITOR", "MONITOR"),
    ("SUBSCRIBE a", "SUBSCRIBE"),
    ("FLUSHALL", "!FLUSHALL"),
    ("flushdb async", "!FLUSHDB"),
    ("SHUTDOWN NOSAVE", "!SHUTDOWN"),
    ("DEBUG SEGFAULT", "!DEBUG"),
    ("EVAL return 0", "!EVAL"),
    ("EVALSHA_RO abc 0", "!EVALSHA_RO"),
    ("FCALL f 0", "!FCALL"),
    ("SAVE", "SAVE"),
    ("BGSAVE", "BGSAVE"),
    ("WAIT 1 0", "WAIT"),
    ("SORT a STORE b", "SORT"),
    ("GEORADIUS g 1 1 1 km STORE x", "The command"),
    ("ZRANGESTORE a b 0 1", "The command"),
    ("PFCOUNT a", "PFCOUNT"),
    ("TOUCH a", "TOUCH"),
    ("CONFIG SET dir /tmp", "!CONFIG"),
    ("CONFIG REWRITE", "!CONFIG"),
    ("CONFIG RESETSTAT", "!CONFIG"),
    ("CONFIG GET requirepass", "?"),
    ("config get REQUIREPASS", "?"),
    ("CONFIG GET *", "?"),
    ("CONFIG GET *pass*", "?"),
    ("CONFIG GET r?quirepass", "?"),
    ("CONFIG GET [mr]*", "?"),
    ("CONFIG GET maxmemory master*", "?"),
    ("CLIENT KILL TYPE normal", "!CLIENT"),
    ("CLIENT PAUSE 1000", "!CLIENT"),
    ("CLIENT", "!CLIENT"),
    ("CLUSTER RESET", "!CLUSTER"),
    ("cluster failover", "!CLUSTER"),
    ("SLOWLOG RESET", "The command 'SLOWLOG RESET'"),
    ("LATENCY RESET", "The command"),
    ("MEMORY PURGE", "The command"),
    ("ACL SETUSER x on", "!ACL"),
    ("ACL LIST", "?"),
    ("ACL GETUSER default", "?"),
    ("ACL LOG RESET", "!ACL"),
    ("MODULE LOAD /tmp/x.so", "!MODULE"),
    ("SCRIPT FLUSH", "!SCRIPT"),
    ("FUNCTION DELETE f", "!FUNCTION"),
    ("REPLICAOF NO ONE", "!REPLICAOF"),
    ("SLAVEOF host 1", "!SLAVEOF"),
    ("XREAD BLOCK 0 STREAMS x 0", "XREAD"),
    ("XREADGROUP GROUP g c STREAMS x >", "The command"),
    ("XINFO", "The command"),
    ("AUTH secret", "?"),
    ("GET user:1:password", "?"),
    ("HGETALL api-key", "?"),
    ("SENTINEL FAILOVER m", "The command"),
    ("PSYNC ? -1", "PSYNC"),
    ("MIGRATE h 1 k 0 1", "!MIGRATE"),
]
_WRITES = ["SET", "DEL", "EVAL", "FLUSHALL", "SHUTDOWN", "RENAME", "LPUSH", "DEBUG", "KEYS"]


@every("line", [one for row in READS.split("\n") for one in row.split(" | ") if one])
def test_a_read_is_proven(line: str) -> None:
    assert redis(line.split()) is None


@every(("line", "start"), REFUSED)
def test_anything_else_has_a_reason(line: str, start: str) -> None:
    reason = redis(line.split())
    assert reason is not None
    assert reason.startswith(start)


@given(st.sampled_from(_WRITES), st.data(), st.lists(st.text(max_size=8), max_size=4))
def test_case_does_not_hide_a_verb(verb: str, data: st.DataObject, rest: list[str]) -> None:
    spelled = "".join(data.draw(st.sampled_from([one.lower(), one.upper()])) for one in verb)
    assert redis([spelled, *rest]) is not None


@given(st.sampled_from(["client", "cluster", "config", "memory", "acl", "object"]), st.text())
def test_an_unknown_part_has_a_reason(verb: str, part: str) -> None:
    assert redis([verb, f"no-such-{part}"]) is not None


def test_no_command_is_no_read() -> None:
    assert redis([]) is not None
    assert redis([""]) is not None
    assert redis(["SET a b"]) is not None

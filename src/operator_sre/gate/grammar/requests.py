"""What a GET asks of a server: some change it, and some are answered with secrets.

Addresses are read as servers read them: with `%xx` taken off, `;parameters` and empty parts left
out, `.` and `..` resolved, in small letters. A part of a path, or the name or the value of a
parameter, that is a verb of administration is not only a question.
"""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, unquote_plus

from operator_sre.gate.grammar.patterns import re

__all__ = ["UNQUOTED_MAX", "harm_of", "parameter_harm"]

UNQUOTED_MAX = 4
WORDS_MAX = 8
# Those change something wherever they stand first or last in a part of a path, as in `yarn-cancel`.
_VERBS = frozenset(
    """
    abort abortabortabort activate allocate approve attach ban blacklist bounce broadcast cancel
    cleanup clear compact cordon crash create deactivate deallocate decommission delete demote
    deploy deregister destroy detach disable discard dismiss downgrade drain drop eject enable erase
    evict exec execute exit expire expunge fail failover fence flush forcemerge freeosmemory freeze
    gc halt handover import inject install invalidate invoke kick kill leave logout merge migrate
    modify mute optimize pause portforward poweroff promote publish purge quiesce quiet quit
    quitquitquit rebalance reboot rebuild recover redeploy refresh register reindex reinitialize
    reject rekey reload relocate remove rename reopen reprocess requeue reroute rerun rescan resend
    reset resign restart restore resume resync retire retry revert revoke rollback rotate schedule
    scram seal shutdown shutdownnow silence split stepdown stop stopall submit subscribe suspend
    switchover takeover terminate toggle trigger truncate unban unblock uncordon undeploy undo
    unfence unfreeze uninstall unload unlock unmute unregister unschedule unseal unsubscribe update
    upgrade upload vacuum wipe write
    """.split()  # noqa: SIM905
)
# The same for a whole part of a path; elsewhere they are nouns.
_WHOLE = _VERBS | frozenset(
    """
    add backup build buildwithparameters call close command do down eval join kickoff launch load
    move open poll post proxy put remote render replace run save script scripttext send set sign
    start startall switch swap up warn pass sync offline online toggleoffline quietdown
    cancelquietdown saferestart safeexit configsubmit dodelete runscript createitem doupload
    setlevel loglevel updatedb replication fetchindex splitshard
    aliveness-test diediedie dropcaches notifycommit polling scatter setattribute srst
    cron.php wp-cron.php
    ack acknowledge adopt apply arm assign boost bump consume disconnect dispatch elect enqueue
    ensure evacuate expel fire force forget generate grant handoff heal hup ingest init initialize
    nuke optimise perform poke pop prune push reap rebase reconcile reconnect recycle redo
    regenerate relaunch relinquish renew repair replay repoint reprovision reschedule resize respawn
    resubmit retrain shrink shut snooze spawn sweep transfer unassign undrain unpause vote wake
    warmup
    append bgrewriteaof bgsave decr decrby del flushall flushdb getdel getset hdel hmset hset incr
    incrby lpop lpush lset ltrim mset persist pexpire replicaof rpop rpush sadd setex setnx slaveof
    spop srem zadd zrem
    """.split()  # noqa: SIM905
)
# Names of parameters that are verbs; a `start` or a `refresh` there is a time.
_ORDERS = (_VERBS - {"refresh", "schedule", "split", "expire", "retry"}) | frozenset(
    {"add", "commit", "down", "eval", "load", "move", "run", "save", "script", "set", "up"}
    | {"add2queue", "stream.file", "stream.url", "v.template"}
)
# Those change something where more words follow, as in `set_log_level` and `doDelete`.
_LEADING = _VERBS | frozenset({"do", "force", "launch", "notify", "set", "unsafe"})
# The same with another word right behind or before them, as in `flushcache`; what is an inflection
# of them tells what has happened.
_STEM = (
    r"(?:cancel|clear|delete|disable|drain|enable|evict|flush|kill|purge|reboot|reload|remove|reset"
    r"|restart|shutdown|stop)"
)
_COMPOUND = re.compile(
    rf"{_STEM}(?!(?:[a-z]?e?[drs]|e?rs|[a-z]?ing|ments?|[a-z]?able|l?ations?|i?ons?|ance|words)$)"
    rf"[a-z]{{2,}}|[a-z]{{2,}}{_STEM}"
)
# Pages that show a state, and set it when they get parameters.
_MANAGERS = frozenset(
    {"balancer-manager", "jkmanager", "jk-status", "log-level", "log_level", "logging", "loglevel"}
)
# Behind a verb these make it the name of something.
_NOUNS = frozenset(
    """
    count counts health history info leader list log logs metrics progress rate ready reason state
    states stats status summary time times
    """.split()  # noqa: SIM905
)
# Parameters that tell what is done, and what only looks.
_ACTS = frozenset(
    """
    action actions cmd cmd_typ cmnd command commands do exec execute function fn job_action method
    _method op operation perform power qt task turn verb wt_action x-http-method-override
    """.split()  # noqa: SIM905
)
_LOOKS = frozenset(
    """
    browse check clusterprop clusterstatus count describe details get getcontentsummary
    getfilestatus health info list listaliases listbackup listcollections liststatus metrics
    overview ping query requeststatus search show showstatus stats status summary view version
    """.split()  # noqa: SIM905
)
_STATEMENTS = frozenset(
    {"q", "query", "sql", "stmt", "statement", "db.query", "body", "stream.body"}
)
_CHANGING = re.compile(
    r"(?i)\s*(?:[(<]\s*)*(?:alter|attach|backup|call|commit|copy|create|delete|detach|do|drop|exec"
    r"|execute|exchange|grant|insert|into|kill|load|merge|move|optimize|rename|replace|revoke"
    r"|set\s+(?:password|\w+\s*=)"
    r"|shutdown|system|truncate|undrop|update|upsert|vacuum|watch)\b"
)
# In ClickHouse, the functions read files, run programs or ask other servers.
_LATER = re.compile(
    r"(?i);\s*\w|\binto\b|\boutfile\b|\bpg_|\bload_file\b|<(?:delete|add|commit)"
    r"|\b(?:azureblobstorage|deltalake|executable|file|gcs|hdfs|hudi|iceberg|jdbc|mongodb|mysql"
    r"|odbc|postgresql|redis|remote|remotesecure|s3|sqlite|url)(?:cluster)?\s*\("
)
# Parts of a path under which a server hands out secrets, or whole configurations with them.
_SECRET_PARTS = frozenset(
    """
    actuator-env apikeys api-keys auth-keys configprops credential credentials creds cubbyhole
    definitions dump env envfrom environment env-vars.html heapdump httptrace httpexchanges
    id_rsa jolokia keyring keys latest-meta-data logfile oauth2 passwd password passwords info.php
    phpinfo phpinfo.php private rawdata rawkeys scriptler secret secrets sessions server-info
    systeminfo threaddump token tokens trace unlockkey userdata user-data users usersecrets vminfo
    """.split()  # noqa: SIM905
)
_SECRET_PATHS = re.compile(
    r"/v1/(?:kv|acl|secret|auth|identity|transit|database|vars?|snapshot|agent/(?:self"
    r"|token|connect)|client/fs|jobs/parse|job/[^/]+(?:/versions)?$)(?:/|$)"
    r"|/v1/sys/(?!(?:health|seal-status|leader|ha-status|init|host-info|version-history|metrics)$)"
    r"|/v2/keys(?:/|$)|/v3(?:alpha|beta)?/(?:kv|auth)(?:/|$)"
    r"|/api/v1/(?:connections|variables)(?:/|$)"
    r"|/debug/pprof/(?:heap|cmdline|trace|allocs|symbol)|/\.(?!well-known(?:/|$))[a-z]"
    r"|/_(?:security|plugins/_security|opendistro/_security|xpack/security|searchguard"
    r"|scripts)(?:/|$)"
    r"|/connectors/[^/]+(?:/(?:config|tasks))?$"
    r"|/_config(?:/|$)|/(?:conf|configs?|settings)/[^/]+\.(?:cfg|conf|ini|json|php|toml|xml)$"
    r"|/(?:appsettings|application|credentials|database|parameters|secrets)[^/]*\.(?:json|php)$"
    r"|\.(?:ini|properties|ya?ml)$"
    r"|/(?:conf|config|config\.xml|config\.json|configz|config_dump|configuration|tasks-config)$"
    r"|/commands/(?:snapshot|restore)$|/images/(?:[^/]+/)?get$|/(?:key|basic|hmac)-auths?(?:/|$)"
    r"|/consumers/[^/]+/(?:jwt|oauth2)(?:/|$)|^/(?:jwts|certificates)(?:/|$)|^/apisix/admin(?:/|$)"
    r"|/api/v4/(?:.*/variables|application/settings)(?:/|$)"
    r"|/manager/(?:text|html|jmxproxy)(?:/(?!list$|serverinfo$)|$)|/host-manager(?:/|$)"
    r"|/api/v1/admin(?:/|$)"
    r"|/api/(?:datasources|admin|snapshots|org/users|parameters|policies)(?:/|$)"
    r"|/containers/[^/]+/(?:archive|export|attach|exec)|/exec(?:/|$)|/fetch/|/containerlogs/"
    r"|/latest/(?:meta-data|user-data|dynamic|api)(?:/|$)|/computemetadata(?:/|$)"
    r"|/metadata/(?:instance|identity)(?:/|$)|/opc/v[12](?:/|$)|/openstack/|/wp-config"
    r"|/backup[^/]*\.(?:sql|tgz|tar|zip|gz)"
    r"|\.(?:sql|sqlite|bak|old|swp|pem|key|p12|pfx|jks|kdbx|env|tfstate|ovpn)$"
)
_BRACES = re.compile(r"\{([^{}]*)\}")
_LETTERS = re.compile(r"\[[^\]]*[A-Za-z]-[A-Za-z]")
_HIDES = "The address is encoded in a way that hides the request."
_WORDS = re.compile(r"[a-z0-9]+")
_CHANGES = "It may change data on the server: {!r} is not a read-only request."
_SECRETS = "?The response may contain secrets: servers keep them under {!r}."


def harm_of(url: str) -> str:
    """Why an address, without its scheme and its host, is more than a question; or nothing."""
    if "[" in url and _LETTERS.search(url):
        return _HIDES
    if "{" in url:  # curl puts each of the words in braces in their place
        most = max((words.count(",") for words in _BRACES.findall(url)), default=0)
        if most >= WORDS_MAX:
            return _HIDES
        for place in range(most + 1):
            plain = ""
            for at, piece in enumerate(_BRACES.split(url)):  # every other one stood in braces
                words = piece.split(",") if at % 2 else [piece]
                plain += words[min(place, len(words) - 1)]
            if reason := _harm_of(plain):
                return reason
    return _harm_of(url)


def _harm_of(url: str) -> str:
    path, _, query = url.partition("#")[0].partition("?")
    for _ in range(UNQUOTED_MAX):
        if (plain := unquote(path)) == path:
            break
        path = plain
    else:
        return _HIDES
    path, _, more = path.partition("?")
    parts = [part.partition(";")[0] for part in path.replace("\\", "/").split("/")]
    path = posixpath.normpath("/" + "/".join(filter(None, parts))).lower()
    if _SECRET_PATHS.search(path):
        return _SECRETS.format(path[:60])
    for part in path.split("/")[1:]:
        if part.strip("_-") in _SECRET_PARTS:
            return _SECRETS.format(part)
        if part.strip("_-") in _WHOLE:
            return _CHANGES.format(part)
    for part in parts:
        # `quietDown` and `safe-restart` are words as well.
        words = _WORDS.findall(re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", part).lower())
        if not words or words[-1] in _NOUNS:
            continue
        if words[-1] in _VERBS or (len(words) > 1 and words[0] in _LEADING):
            return _CHANGES.format(part[:60])
        if any(map(_COMPOUND.fullmatch, words)):
            return _CHANGES.format(part[:60])
    if query and path.rpartition("/")[2] in _MANAGERS:
        return _CHANGES.format(path[:60])
    for parameter in (*query.replace(";", "&").split("&"), *more.split("&")):
        name, _, value = parameter.partition("=")
        if name and (reason := parameter_harm(unquote_plus(name), unquote_plus(value))):
            return reason
    return ""


def parameter_harm(name: str, value: str) -> str:
    """Why a parameter makes an address more than a question; or nothing."""
    for _ in range(UNQUOTED_MAX):
        if (plain := unquote_plus(value)) == value:
            break
        value = plain
    name = name.lower().strip()
    if name in _ACTS:
        return "" if value.lower() in _LOOKS else _CHANGES.format(f"{name}={value[:40]}")
    if name in _ORDERS:
        return _CHANGES.format(name)
    if name in _STATEMENTS and (_CHANGING.match(value) or _LATER.search(value)):
        return _CHANGES.format(f"{name}={value[:40]}")
    return ""

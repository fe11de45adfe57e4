"""Secrets in command lines: long options by their name, short ones by the tool they belong to."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from operator_sre.ledger.redaction.findings import Finding, Pattern, detector
from operator_sre.ledger.redaction.names import STEMS, Trust, name_of
from operator_sre.ledger.redaction.values import (
    Value,
    closing,
    is_code,
    is_secret,
    line_end,
    looks_random,
    read_value,
)

__all__ = [
    "NAMES",
    "TOOLS",
    "TRIGGERS",
    "Tool",
    "find_options",
    "find_tools",
    "find_unknown_tools",
    "secret_arguments",
]


@dataclass(frozen=True, slots=True)
class Tool:
    """One way: `before` matches what stands between a tool's name and the secret."""

    names: str
    before: bytes
    kind: str = "password"
    trust: Trust = Trust.ANY
    # A pattern that has to follow on the line, or it is no secret.
    after: bytes = b""
    # Whether it stands at once after the name, as in a configuration file.
    is_next: bool = False


_USER = rb"[\"']?[^\s:\"'$]*:"
_STDIN = (
    rb"\| *(?:sudo +-\S*S|(?:sudo +)?(?:chpasswd|cryptsetup|passwd +.*--stdin"
    rb"|\S+ +(?:\S+ +)?login\b.*--password-stdin|kinit))"
)
_MYSQL = "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlsh mariadb mariadb-dump mycli"

TOOLS: tuple[Tool, ...] = (
    Tool(_MYSQL, rb" -p"),
    # With a blank the tool asks for the password; people write it all the same.
    Tool(_MYSQL, rb" -p ", trust=Trust.CHOSEN),
    Tool("redis-cli valkey-cli keydb-cli redis-benchmark", rb" (?:-a|--pass) ?"),
    Tool("redis-cli valkey-cli", rb"(?i) auth (?:default )?", trust=Trust.CHOSEN),
    Tool("mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat", rb" -p ?"),
    Tool("sshpass", rb" -p ?"),
    Tool("curl", rb" (?:-[a-zA-Z]*[uU]|--user|--proxy-user)[ =]?" + _USER),
    Tool("curl", rb" (?:-b|--cookie)[ =]?[\"']?[\w.-]+=", "session", Trust.RANDOM),
    Tool(
        "docker podman buildah skopeo helm az crane oras nerdctl oc cf",
        rb"(?: registry| hub)? login(?: \S+)*? -p ?",
    ),
    Tool("ldapsearch ldapadd ldapmodify ldapwhoami ldapdelete ldappasswd", rb" -[ws] ?"),
    Tool("smbclient rpcclient smbmap", rb" (?:-U|--user)[ =]?[\"']?[^\s%\"']+%"),
    Tool("sqlcmd bcp osql", rb" -P ?"),
    Tool("cqlsh rabbitmqadmin couchbase-cli cypher-shell nats", rb" -p "),
    Tool("ipmitool", rb" -P ?"),
    Tool("snmpwalk snmpget snmpbulkwalk", rb" -[AX] "),
    Tool("zip unzip", rb" -P ?"),
    Tool("7z 7za rar unrar", rb" -h?p"),
    Tool("openssl", rb" -(?:passin|passout|pass|passwd) [\"']?pass:"),
    Tool("lftp", rb" -u [\"']?[^\s,\"']+,"),
    Tool("etcdctl", rb" --user[ =]" + _USER),
    Tool("htpasswd", rb" -[a-zA-Z]*b[a-zA-Z]*(?: -\w+)*(?: [^\s-]\S*)? [\w.@-]+ "),
    Tool("rabbitmqctl", rb" (?:add_user|change_password|authenticate_user) [\w.@-]+ "),
    Tool("vault", rb" login (?:-\S+ )*(?:token=)?", "token", Trust.SAID),
    Tool("vault", rb" (?:operator )?unseal ", "token", Trust.RANDOM),
    Tool("chpasswd", rb" *<<< ?[\"']?[\w.-]+:"),
    Tool("echo printf", rb" (?:-\w+ )*[\"']?(?:[\w.-]+:)?", after=_STDIN, is_next=True),
    Tool("kubectl oc", rb" --from-literal[= ][\"']?[\w./-]+=", "secret"),
    Tool("mc", rb" (?:alias set|config host add) \S+ \S+ \S+ ", "secret", Trust.CHOSEN),
    Tool("aws", rb" configure set (?:\S+\.)?aws_(?:secret_access_key|session_token) ", "secret"),
    Tool("npm yarn pnpm", rb" config set \S*_(?:authToken|auth|password)[ =]", "token"),
    Tool("nmcli", rb" (?:password|wifi-sec\.psk|802-1x\.password) "),
    Tool("wpa_passphrase", rb" (?:\"[^\"]*\"|'[^']*'|\S+) "),
    Tool("xfreerdp", rb" /p:"),
    Tool("requirepass masterauth bindpw rootpw", rb" +", is_next=True),
    Tool("openssl", rb" enc (?:\S+ )*?-k "),
    Tool("ssh-keygen", rb" -[NP] ?"),
    Tool("cryptsetup", rb" *<<< ?"),
    Tool("mosquitto_pub mosquitto_sub", rb" -P "),
    Tool("beeline snowsql influx trino psql-cli dsquery", rb" -p(?:assword)? "),
    Tool("snmpwalk snmpget snmpbulkwalk snmpset snmptrap", rb" -c ", "secret", Trust.CHOSEN),
    Tool("aws", rb" put-parameter .*?--value[ =]", "secret"),
    Tool("az", rb" keyvault secret set .*?--value[ =]", "secret"),
    Tool("mysqladmin mariadb-admin", rb" password "),
    Tool("vault", rb" token (?:revoke|lookup|renew) (?:-\S+ )*", "token", Trust.CHOSEN),
    Tool("nomad consul", rb" acl bootstrap ", "token", Trust.RANDOM),
    Tool("etcdctl", rb" user add [\w.-]+:"),
    Tool("net", rb" use(?: \S+){1,2} /u(?:ser)?:\S+ "),
    Tool("net", rb" user \S+ ", trust=Trust.CHOSEN),
    Tool("snmp-server", rb" community (?:[05-9] )?", "secret", Trust.SAID),
    Tool("bw", rb" (?:unlock|login \S+) ", trust=Trust.SAID),
    Tool("doctl fly flyctl heroku influx vercel netlify glab tea", rb" -t ", "token", Trust.RANDOM),
    Tool("kinit passwd", rb" [^<\n]*<<< ?", trust=Trust.SAID),
    Tool("gh glab", rb" auth [^<\n]*<<< ?", "token", Trust.RANDOM),
    Tool("sqlplus sqlldr expdp impdp rman", rb"[ =][\w.]+/", trust=Trust.SAID),
    Tool("convertto-securestring", rb" (?:-String )?", is_next=True),
    Tool("schtasks", rb"(?i) /rp "),
    Tool("rclone", rb" obscure "),
    Tool("wg", rb" (?:private-key|preshared-key) <\(echo ", "private_key", Trust.RANDOM),
)


COMMAND_BYTES_MAX = 4096
# An option, then its value as the next word or, in a list, as the next string.
_OPTION = Pattern(rb"(?i)--?[\w.-]*(?:" + STEMS + rb")[\w.-]*(?: |[\"'],\s*[\"']|[\"']?\r?\n\s*- )")
NAMES = sorted({name.encode() for tool in TOOLS for name in tool.names.split()}, key=len)[::-1]
_CALLED = rb"\b(?:" + b"|".join(NAMES) + rb")[ <]"
_TOOL = Pattern(rb"(?i)" + _CALLED)
TRIGGERS = _CALLED + rb"| -p ?| -u | -a | --user[ =]"
# A tool that we do not know, with a user and something that could be a password.
_LOGIN = Pattern(
    rb" (?:-u|-U|-l|--user|--username|--login)[ =]?[\w.@-]+ (?:-{1,2}[\w-]+[ =][\w.:-]+ ){0,3}-p ?"
)
_PAIR = Pattern(
    rb"(?: -[uAa]| --user| --[\w-]*auth| --[\w-]*creds?| --credentials"
    rb"|\b(?:stats|user) (?:auth|add))"
    rb"[ =][\"']?[\w.@-]+:"
)
_PROPERTY = Pattern(rb"[A-Za-z.-]+=|-")
_NEXT = Pattern(rb" \|\|? | && |; ")


@functools.cache
def _by_name() -> Mapping[bytes, Sequence[tuple[Tool, Pattern, Pattern | None]]]:
    found: dict[bytes, list[tuple[Tool, Pattern, Pattern | None]]] = {}
    for tool in TOOLS:
        after = Pattern(tool.after) if tool.after else None
        for name in tool.names.split():
            found.setdefault(name.encode(), []).append((tool, Pattern(tool.before), after))
    return found


def find_tools(data: bytes) -> Iterator[Finding]:
    """What known tools take as a secret, anywhere in a command line."""
    done: dict[bytes, int] = {}  # how far the line of a tool has been read, by its name
    for start, end in _TOOL.spans(data):
        name = data[start : end - 1].lower()
        if start < done.get(name, 0):
            continue
        last = line_end(data, start, COMMAND_BYTES_MAX)
        cut = _NEXT.first(data, end, last)
        done[name] = cut[0] if cut else last
        for tool, before, after in _by_name()[name]:
            stop = done[name]
            if after is not None:
                wanted = after.first(data, end, last)
                stop = wanted[0] if wanted else end - 1
            places = before.spans(data, end - 1, stop)
            read = 0
            for begin, at in itertools.islice(places, 1) if tool.is_next else places:
                value = _after(data, begin, at) if at > read else None
                if value is None or value.start >= stop or value.quote == b"`":
                    continue  # in a shell, backticks are another command
                raw = value.of(data)
                read = value.end
                if raw[:1] in b"=-" and not looks_random(raw):
                    continue  # the next option, or no value at all
                is_env = tool.trust is Trust.ANY and not tool.is_next
                if is_secret(raw, tool.trust, is_env=is_env, at_least=1):
                    yield Finding(value.start, value.end, tool.kind, value.plain(data))


def find_unknown_tools(data: bytes) -> Iterator[Finding]:
    """What any tool takes as `-p` after a user, unless it is a port or a property."""
    yield from _find_passwords(data)
    yield from _find_login_pairs(data)


@detector(_LOGIN)
def _find_passwords(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    if value is None or value.quote == b"`" or _PROPERTY.at(data, value.start) > 0:
        return
    if is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password", value.plain(data))


@detector(_PAIR)
def _find_login_pairs(data: bytes, begin: int, end: int) -> Iterator[Finding]:
    value = _after(data, begin, end)
    if value is not None and is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password")


def _after(data: bytes, begin: int, at: int) -> Value | None:
    """The value at `at`; when a quote was opened on the way there, it ends with that quote."""
    for mark in (b'"', b"'"):
        if data.count(mark, begin, at) % 2:
            end = closing(data, at, mark, 0)
            if end > at:
                return Value(at, end, mark)
    return read_value(data, at)


@detector(_OPTION)
def find_options(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """`--password x`, `--api-token x`, `"--password", "x"`; `--password=x` is an assignment."""
    if start and data[start - 1] not in b" \t\n\"'`([{,=|;&\\":
        return
    named = name_of(data[start:end].strip(b" \"',\r\n-"))
    value = read_value(data, end)
    if named is None or value is None:
        return
    raw = value.of(data)
    is_option = raw[:1] == b"-" and not looks_random(raw)
    # Help: `--password PASSWORD`, `--token TOKEN`.
    option = data[start:end].lower()
    is_help = raw.isupper() and raw.lower().replace(b"_", b"-") in option
    if is_option or is_help or (not value.quote and is_code(raw)):
        return
    if is_secret(raw, named.trust):
        yield Finding(value.start, value.end, named.kind, value.plain(data))


def secret_arguments(arguments: Sequence[object]) -> dict[int, str]:
    """Which words of an argument list are secrets because of the word before, with their kinds."""
    found: dict[int, str] = {}
    for at, (option, value) in enumerate(itertools.pairwise(arguments)):
        if not (isinstance(option, str) and isinstance(value, str)):
            continue
        if option[:1] != "-" or "=" in option or "[REDACTED:" in option:
            continue
        named = name_of(option.encode("utf-8", "surrogatepass"))
        raw = value.encode("utf-8", "surrogatepass")
        if named is not None and raw[:1] != b"-" and is_secret(raw, named.trust):
            found[at + 1] = named.kind
    return found

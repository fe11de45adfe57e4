"""Kinds of values: what an argument must be for a command to only read.

A check returns nothing when the value is harmless, else why it is not. A reason that starts with
`!` speaks of something that destroys or runs code, one with `?` of secrets.
"""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

from operator_sre.gate.grammar.languages import LANGUAGES
from operator_sre.gate.grammar.patterns import re
from operator_sre.gate.grammar.requests import UNQUOTED_MAX, harm_of, parameter_harm
from operator_sre.gate.grammar.scene import Scene
from operator_sre.shell.line import parse
from operator_sre.shell.words import Word

__all__ = ["KINDS", "check"]

HOST_CHARACTERS_MAX = 255
Check = Callable[[Word, Scene], str]
_UNKNOWN = "The value of {} is not known until it runs."
_NAME = re.compile(r"[A-Za-z0-9_.:@%+,=~^*?\[\]/$-]*")
_SETTING = re.compile(r"[+-]?[0-9.:,/]*|(?:0x)?[A-Za-z0-9_-]{0,24}(?::[A-Za-z0-9_-]{0,24})?")
_HOST = re.compile(
    r"(?:\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*\]?(?:%\w+)?"
    r"|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?)"
    r"(?::[A-Za-z0-9_]+)?(?:/[0-9]+)?"
)
# What a name is asked for; none of these words is a name that is looked up.
_DNS_TYPES = frozenset(
    """
    a aaaa any axfr caa cds cdnskey ch cname dnskey ds hs https in loc mx naptr ns nsec nsec3 ptr
    rrsig soa spf srv sshfp svcb tlsa txt
    """.split()  # noqa: SIM905
)
_DNS_OPTION = re.compile(r"\+[a-z0-9=./:]+")
# Without a scheme, curl guesses one from such a name, and a path may be any command to that.
_URL = re.compile(
    r"(?:(https?|telnet)://|(?!(?i:dict|imap|ldap|pop3|smtp)\.))"
    r"((?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.*-]+)(?::[A-Za-z0-9_]+)?)"
    r"(/[^\s?{}\[\]]*+)?(?:\?\S*+)?"
)
# Servers of clouds that give credentials to any client, beside the link-local addresses.
_METADATA = re.compile(
    r"metadata(?:\..*)?|instance-data(?:\..*)?|169\.254\..*|kubernetes\.default.*"
)
_METADATA_ADDRESSES = frozenset({"100.100.100.200", "fd00:ec2::254", "192.0.0.192"})
_ADDRESS = re.compile(r"[0-9a-fx.:]*[0-9][0-9a-fx.:]*")
_PUBLIC_REGISTRY = "docker.io"
_PARAMETER = re.compile(r"[\w.\[\]-]+")
_FETCHED = re.compile(r"(?i)https?://")
_FILE_NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_.:/+-]*")
_INTERFACE = re.compile(r"(?:if!)?[a-z][a-z0-9-]{0,14}(?:[.:]\d{1,4})?|\d{1,9}")
_BLANKS = re.compile(r"[\s()]+")
# The network protocols and ports that lsof shows, and the host between them.
_INET = re.compile(
    r"(?i)[46]?(?:tcp|udp|udplite|sctp)?(?:@(\[[0-9a-f:.]+\]|[^\s:@\[\]]+))?(?::[\w,-]*)?"
)
# Words and signs of a filter of ss, and ports.
_SOCKETS = re.compile(
    r"[=!<>&|,*]+|:[\w*-]+|/\S*|\d+|\*:[\w*]+"
    r"|(?:state|exclude|dst|src|dport|sport|and|or|not|eq|ne|neq|gt|lt|ge|le|geq|leq|autobound)"
    r"|(?:all|connected|synchronized|bucket|big|established|syn-sent|syn-recv|fin-wait-[12]"
    r"|time-wait|closed?|close-wait|last-ack|listen(?:ing)?|closing|unconnected|estab)"
    r"|[ds]port[=<>!]+:?\w+|dev|fwmark|cgroup"
)
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?:/\d+)?(?::[\w*-]+)?")
# Answers that are full of secrets, and questions that hold one.
_REVEALING = re.compile(
    r"(?i)/actuator/(?:env|heapdump|configprops|httptrace|threaddump)|/debug/pprof/heap"
    r"|/\.(?:env|git)"
    r"|[?&](?:(?:access_|auth_)?token|api_?key|key|password|passwd|secret|sig|signature)="
)
# Headers that neither carry a password nor another method; the host in one is who is asked.
_HEADER = re.compile(
    r"(?i)(?:(host)|(?:accept|if)[\w-]*|user-agent|cache-control|origin|content-type|expect)"
    r":([^\x00-\x08\x0a-\x1f\x7f]*)"
)
# Addresses inside of an address, and names that a relay would ask for.
_NESTED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+([^/?#&\s\"',;]+)")
_ASKED_FOR = re.compile(
    r"(?i)(?:[?&;](?:target|url|uri|host(?:name)?|addr(?:ess)?|dest(?:ination)?|dst|server|endpoint"
    r"|remote|proxy|peer|domain|site|feed|callback|redirect|link|name)=|/agent/join/)"
    r"(?![a-z][a-z0-9+.-]*:/)/*([^/?#&\s\"',;]+)"
)
_IMAGES = re.compile(r"/images/search\b")
# Kinds of things in a cluster whose contents are secret, as people shorten them.
_SECRET_KINDS = re.compile(r"(?i)(?:[a-z]*secrets?|[a-z]*tokens?|oauthclients?)(?:[./].*)?")
# Variables that every process has and that say nothing secret.
_PLAIN_VARIABLES = re.compile(
    r"\$(?:HOME|USER|PWD|HOSTNAME|SHELL|LANG|PATH|TERM|UID|LOGNAME|OLDPWD)"
)
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")


def _language(name: str) -> Check:
    def check_text(word: Word, scene: Scene) -> str:
        if word.opaque:
            return "!The command that it runs is not known until it runs."
        reason = LANGUAGES[name](word.text) or ""
        if reason[:1] == "?":
            scene.sensitive.append(word.text[:200])
        return reason

    return check_text


KINDS: dict[str, Check] = {name: _language(name) for name in LANGUAGES}


def _kind(*names: str) -> Callable[[Check], Check]:
    """Make a check that of the kinds with these names."""

    def add(made: Check) -> Check:
        KINDS.update(dict.fromkeys(names, made))
        return made

    return add


def check(kind: str, word: Word, scene: Scene) -> str:
    """Why a value is not of its kind, or nothing."""
    if kind[0] == "(" or kind[0] == "/":
        if word.opaque:
            return "" if word.bland else _UNKNOWN.format("an argument")
        fits = _compile(kind[1:-1]).fullmatch(word.text)
        return "" if fits else f"{_quote(word)} is not known to be harmless here."
    if "|" in kind:  # one of them is enough; the reason is that of the last
        reasons = [KINDS[name](word, scene) for name in kind.split("|")]
        return "" if "" in reasons else reasons[-1]
    return KINDS[kind](word, scene)


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _quote(word: Word) -> str:
    return repr(word.text[:60])


@_kind("text")
def _text(word: Word, scene: Scene) -> str:
    """Any text: it names no file, program or place."""
    return _UNKNOWN.format("an argument") if _is_unknown(word) else ""


@_kind("any")
def _any(word: Word, scene: Scene) -> str:
    """Any text even when parts of it are not known yet, if they are no secrets."""
    if word.splits and not word.bland:
        return _UNKNOWN.format("an argument")
    for variable in _VARIABLE.findall(word.text) if word.opaque else ():
        if not _PLAIN_VARIABLES.fullmatch(variable):
            scene.sensitive.append(variable)
            return f"?{variable} may hold a secret."
    return ""


@_kind("blind")
def _blind(word: Word, scene: Scene) -> str:
    """Like any, for what is compared and not shown."""
    return _UNKNOWN.format("an argument") if word.splits and not word.bland else ""


@_kind("name")
def _name(word: Word, scene: Scene) -> str:
    """A name, a number, a place in a tree: one word without blanks or odd signs."""
    if word.opaque:
        return "" if word.bland else _UNKNOWN.format("a name")
    return "" if _NAME.fullmatch(word.text) else f"{_quote(word)} is not a plain name."


@_kind("setting")
def _setting(word: Word, scene: Scene) -> str:
    """A number or a plain word, which cannot be a host name even where a tool expects one."""
    if word.opaque:
        return "" if word.bland else _UNKNOWN.format("a number")
    return "" if _SETTING.fullmatch(word.text) else f"{_quote(word)} is not a number or a word."


def _is_unknown(word: Word) -> bool:
    """True when it is not known; what xargs adds only fits where everything is harmless."""
    return word.opaque and not word.bland and not (word.glob and word.text == "*")


def _plain_path(word: Word) -> str:
    if word.opaque and not word.bland:
        return _UNKNOWN.format("a path")
    return ""


@_kind("file")
def _file(word: Word, scene: Scene) -> str:
    """A file whose contents are shown."""
    if word.text == "-":
        return ""
    if word.text[:1] == "@" and len(word.text) > 1:  # some tools take more arguments from a file
        word = Word(word.text[1:], word.opaque, word.splits, word.glob, word.bare, word.bland)
    return _plain_path(word) or scene.read(word)


@_kind("named")
def _plain_file(word: Word, scene: Scene) -> str:
    """A file for a script to which other signs in its name are a program or options."""
    if word.opaque or not _FILE_NAME.fullmatch(word.text):
        return f"{_quote(word)} is not a plain name of a file."
    return _file(word, scene)


@_kind("tree", "here")
def _tree(word: Word, scene: Scene) -> str:
    """A directory whose files are shown, with all below it."""
    return _plain_path(word) or scene.read(word, below=True)


@_kind("within")
def _within(word: Word, scene: Scene) -> str:
    """A path inside of a repository, or the name of a commit; elsewhere, all below it is shown."""
    first = word.text[:1]
    odd = first in ("/", "~", ".") or scene.secrets.holds(scene.cwd, below=True)
    # A directory below a home, not the whole home.
    own = scene.cwd.startswith("/home/") and scene.cwd.count("/") > 2 and first not in "/~."
    return (_tree if odd and not own else _file)(word, scene)


@_kind("yq")
def _yq(word: Word, scene: Scene) -> str:
    """An expression; yq reads it as a file where a file has that name."""
    return _language("yq")(word, scene) or _file(word, scene)


# only what is public of it is shown, such as a certificate
@_kind("path", "public")
def _path(word: Word, scene: Scene) -> str:
    """A path of which only the name and what is known of it are shown, whichever it is."""
    if "watchdog" in word.text:
        return "!Opening a watchdog starts its timer, which resets the machine."
    return _UNKNOWN.format("a path") if _is_unknown(word) else scene.visit(word.text)


@_kind("certificate")
def _certificate(word: Word, scene: Scene) -> str:
    """A public file as openssl opens it: what has a scheme is fetched or asked of a device."""
    if not word.opaque and _FETCHED.match(word.text):
        if scene.anywhere:
            return _url(word, scene)
        scene.network.append(word.text.split("/")[2])
        return ">openssl would download it and follow a redirect to any host."
    if ":" in word.text.partition("/")[0]:
        return f"{_quote(word)} is not a file, but something that openssl opens."
    return _path(word, scene)


@_kind("null")
def _null(word: Word, scene: Scene) -> str:
    """Where output may go: nowhere, or to where it would have gone."""
    if word.text in ("/dev/null", "-", "/dev/stdout", "/dev/stderr") and not word.opaque:
        return ""
    scene.write(word)
    return f"It writes to {_quote(word)}."


@_kind("host")
def _host(word: Word, scene: Scene) -> str:
    """A host, with a port or without."""
    if word.opaque:
        return _UNKNOWN.format("a host")
    if len(word.text) > HOST_CHARACTERS_MAX or not _HOST.fullmatch(word.text):
        return f"{_quote(word)} is not a host."
    return scene.reach(word.text)


@_kind("lookup")
def _lookup(word: Word, scene: Scene) -> str:
    """A host that is looked up as it is written, so that a port would be part of its name."""
    if not word.opaque and (":" in word.text or "/" in word.text) and not _is_address(word.text):
        return f"{_quote(word)} is not a host."
    return _host(word, scene)


@_kind("dns")
def _dns(word: Word, scene: Scene) -> str:
    """An argument of dig: a name, a type, a +option, an @server."""
    if word.opaque:
        return _UNKNOWN.format("a name")
    if word.text[:1] == "@":
        return _lookup(Word(word.text[1:]), scene)
    if word.text[:1] == "+":
        if not _DNS_OPTION.fullmatch(word.text):
            return f"{_quote(word)} is not an option."
        option, _, value = word.text.partition("=")
        return _lookup(Word(value), scene) if value and "+domain".startswith(option) else ""
    if word.text == "." or word.text.lower() in _DNS_TYPES:
        return ""
    return _lookup(word, scene)


@_kind("url")
def _url(word: Word, scene: Scene) -> str:
    """An address that is read and not written to."""
    if word.opaque:
        return _UNKNOWN.format("an address")
    parsed = _URL.fullmatch(word.text)
    if parsed is None:
        return f"{_quote(word)} is not a known read-only address."
    host = parsed[2]
    if _hands_out_credentials(host):
        scene.network.append(host)
        scene.sensitive.append(word.text)
        return f"?{host} may return credentials of the machine."
    if _REVEALING.search(word.text) or _REVEALING.search(posixpath.normpath(unquote(word.text))):
        scene.sensitive.append(word.text)
        return "?The request or the response contains secrets."
    if parsed[1] == "telnet" and scene.fed:
        return "It would send its input to another host."
    if reason := harm_of(word.text[parsed.end(2) :]):
        if reason[0] == "?":
            scene.sensitive.append(word.text)
        return reason
    hosts = (host, *_find_hosts(word.text, parsed.start(2)))
    return next(filter(None, map(scene.reach, hosts)), "")


@_kind("parameter")
def _parameter(word: Word, scene: Scene) -> str:
    """NAME==VALUE, which httpie puts behind the address."""
    name, equals, value = word.text.partition("==")
    if word.opaque or not equals or "@" in value or not _PARAMETER.fullmatch(name):
        return f"{_quote(word)} is not a known read-only parameter."
    if _REVEALING.search(f"?{name}="):
        return "?The request or the response contains secrets."
    hosts = _find_hosts(f"?{name}={value}", 0)
    return parameter_harm(name, value) or next(filter(None, map(scene.reach, hosts)), "")


def _find_hosts(url: str, begin: int) -> list[str]:
    """The hosts inside of an address: the server may send requests to them."""
    text = url[begin:]
    found: list[str] = []
    for _ in range(UNQUOTED_MAX):  # each who passes it on may take one layer off
        found += _NESTED.findall(text)
        found += [host for host in _ASKED_FOR.findall(text) if "." in host or ":" in host]
        found += [_PUBLIC_REGISTRY] if _IMAGES.search(text) else []
        if (plain := unquote(text)) == text:
            break
        text = plain
    return list(dict.fromkeys(found))


def _hands_out_credentials(host: str) -> bool:
    """True for where clouds hand them out, however the address is written."""
    name = host.lower()
    name = name[1:].partition("]")[0] if name[:1] == "[" else name.partition(":")[0]
    name = name.rstrip(".")
    if not _ADDRESS.fullmatch(name):
        return _METADATA.fullmatch(name) is not None
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return True  # a number that is no plain address is some other address
    inner = getattr(address, "ipv4_mapped", None) or address
    return inner.is_link_local or str(inner) in _METADATA_ADDRESSES


@_kind("header")
def _header(word: Word, scene: Scene) -> str:
    """A header of a question; a proxy passes the question on to the host that it names."""
    parsed = _HEADER.fullmatch(word.text)
    if parsed is None or (word.opaque and (parsed[1] or not word.bland)):
        return f"The header {_quote(word)} is not known to be harmless."
    host = parsed[2].strip()
    if not (parsed[1] and host):
        return ""
    if _hands_out_credentials(host):
        scene.network.append(host)
        return f"?{host} may return credentials of the machine."
    return _host(Word(host), scene)


@_kind("pinned")
def _pinned_address(word: Word, scene: Scene) -> str:
    """HOST:PORT:ADDRESS: the address is what is spoken to, the host what it is asked for."""
    if word.opaque or word.text.count(":") < 2:
        return _UNKNOWN.format("an address")
    host, _, address = word.text.lstrip("+").split(":", 2)
    if any(map(_hands_out_credentials, address.split(","))):
        return f"?{address} may return credentials of the machine."
    named = "" if host == "*" else scene.reach(host)
    return named or next(filter(None, map(scene.reach, address.split(","))), "")


@_kind("image")
def _image(word: Word, scene: Scene) -> str:
    """An image of a container in a registry, which is its first part if that looks like a host."""
    if word.opaque or not _NAME.fullmatch(word.text):
        return _UNKNOWN.format("an image")
    if word.text.startswith(("docker-daemon:", "containers-storage:")):  # it lies on this machine
        return ""
    first, _, rest = word.text.removeprefix("docker://").partition("/")
    named = rest and (first == "localhost" or "." in first or ":" in first)
    return scene.reach(first if named else _PUBLIC_REGISTRY)


@_kind("own")
def _own(word: Word, scene: Scene) -> str:
    """An interface, or an address of this machine; a name would be looked up."""
    if word.opaque:
        return "" if word.bland else _UNKNOWN.format("an address")
    if _INTERFACE.fullmatch(word.text) or _is_address(word.text):
        return ""
    return _host(word, scene)


@_kind("peer")
def _peer(word: Word, scene: Scene) -> str:
    """A filter that may name a host: NODE@HOST, PROTOCOL@HOST:PORT, PORT,HOST,PORT."""
    if word.opaque:
        return "" if word.bland else _UNKNOWN.format("an argument")
    for text in (*word.text.split("@")[1:], *word.text.split(",")[1:2]):
        host = text if _is_address(text) else text.partition(":")[0]
        plain = not host or host.isdigit() or _is_address(host.strip("[]"))
        if not plain and (reason := scene.reach(host)):
            return reason
    return ""


@_kind("sockets")
def _sockets(word: Word, scene: Scene) -> str:
    """What ss is to show: a name in it is looked up."""
    if _is_unknown(word):
        return _UNKNOWN.format("an argument")
    for endpoint in _BLANKS.split(word.text):
        if not endpoint or _SOCKETS.fullmatch(endpoint):
            continue
        # One end of a connection as numbers: an address or a network, and maybe a port.
        bare, _, length = endpoint.partition("/")
        plain = not length or length.partition(":")[0].isdigit()
        if bracketed := _BRACKETED.fullmatch(endpoint):
            known = _is_address(bracketed[1])
        else:
            known = plain and (_is_address(bare) or _is_address(bare.rpartition(":")[0]))
        if not known and (reason := scene.reach(endpoint)):
            return reason
    return ""


@_kind("inet")
def _inet(word: Word, scene: Scene) -> str:
    """What lsof is to show of the network: a name in it is looked up."""
    if word.opaque:
        return "" if word.bland else _UNKNOWN.format("an argument")
    parsed = _INET.fullmatch(word.text)
    host = (parsed[1] or "") if parsed else word.text
    return "" if not host or _is_address(host.strip("[]")) else scene.reach(host)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


@_kind("unread")
def _unread(word: Word, scene: Scene) -> str:
    """A text that is not taken from a file by an @ before its name."""
    if word.text.startswith(("@", "<")):
        return f"{_quote(word)} is read from a file."
    return _text(word, scene)


@_kind("resource")
def _resource(word: Word, scene: Scene) -> str:
    """Kinds of things in a cluster, with names or without, none of them secret."""
    if word.opaque or word.glob:
        return _UNKNOWN.format("a kind")
    for kind in word.text.split(","):
        if _SECRET_KINDS.fullmatch(kind):
            scene.sensitive.append(kind)
            return f"?{kind!r} holds secrets."
    return _name(word, scene)


@_kind("script")
def _script(word: Word, scene: Scene) -> str:
    """A command line inside of an argument."""
    if word.opaque:
        return "!The command that it runs is not known until it runs."
    script = parse(word.text)
    scene.inner.extend(script.commands)
    return script.trouble

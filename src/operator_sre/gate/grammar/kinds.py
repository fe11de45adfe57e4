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
from operator_sre.gate.grammar.scene import Scene
from operator_sre.gate.grammar.shell import parse
from operator_sre.gate.grammar.words import Word

__all__ = ["KINDS", "check"]

HOST_CHARACTERS_MAX = 255
Check = Callable[[Word, Scene], str]
_UNKNOWN = "What stands in the place of {} is only known when it runs."
_NAME = re.compile(r"[A-Za-z0-9_.:@%+,=~^*?\[\]/$-]*")
_HOST = re.compile(
    r"(?:\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*\]?(?:%\w+)?"
    r"|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?)"
    r"(?::[A-Za-z0-9_]+)?(?:/[0-9]+)?"
)
_DNS_OPTION = re.compile(r"\+[a-z0-9=./:]+")
_URL = re.compile(
    r"(?:(https?|telnet)://)?((?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.*-]+)(?::[A-Za-z0-9_]+)?)"
    r"(/[^\s?{}\[\]]*+)?(?:\?\S*+)?"
)
# Where clouds hand out credentials to whoever asks, beside the link-local addresses.
_METADATA = re.compile(
    r"metadata(?:\..*)?|instance-data(?:\..*)?|169\.254\..*|kubernetes\.default.*"
)
_METADATA_ADDRESSES = frozenset({"100.100.100.200", "fd00:ec2::254", "192.0.0.192"})
_ADDRESS = re.compile(r"[0-9a-fx.:]*[0-9][0-9a-fx.:]*")
# Answers that are full of secrets, and questions that hold one.
_REVEALING = re.compile(
    r"(?i)/actuator/(?:env|heapdump|configprops|httptrace|threaddump)|/debug/pprof/heap"
    r"|/\.(?:env|git)"
    r"|[?&](?:(?:access_|auth_)?token|api_?key|key|password|passwd|secret|sig|signature)="
)
# Kinds of things in a cluster whose contents are secret, as people shorten them.
_SECRET_KINDS = re.compile(r"(?i)(?:[a-z]*secrets?|[a-z]*tokens?|oauthclients?)(?:[./].*)?")
# Variables that every process has and that say nothing secret.
_PLAIN_VARIABLES = re.compile(
    r"\$(?:HOME|USER|PWD|HOSTNAME|SHELL|LANG|PATH|TERM|UID|LOGNAME|OLDPWD)"
)
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")


def check(kind: str, word: Word, scene: Scene) -> str:
    """Why a value is not of its kind, or nothing."""
    if kind[0] == "(" or kind[0] == "/":
        return _pattern(kind, word)
    if "|" in kind:  # one of them is enough; what the last one says is told
        reasons = [KINDS[one](word, scene) for one in kind.split("|")]
        return "" if "" in reasons else reasons[-1]
    return KINDS[kind](word, scene)


def _pattern(kind: str, word: Word) -> str:
    if word.opaque:
        return "" if word.bland else _UNKNOWN.format("an argument")
    fits = _compiled(kind[1:-1]).fullmatch(word.text)
    return "" if fits else f"{_shown(word)} is not known to be harmless here."


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _shown(word: Word) -> str:
    return repr(word.text[:60])


def _text(word: Word, scene: Scene) -> str:
    """Any text; nobody looks at it as a file, a program or a place."""
    return _UNKNOWN.format("an argument") if _hidden(word) else ""


def _any(word: Word, scene: Scene) -> str:
    """Any text even when parts of it are not known yet, if they are no secrets."""
    if word.splits and not word.bland:
        return _UNKNOWN.format("an argument")
    for variable in _VARIABLE.findall(word.text) if word.opaque else ():
        if not _PLAIN_VARIABLES.fullmatch(variable):
            scene.sensitive.append(variable)
            return f"?{variable} may hold a secret."
    return ""


def _blind(word: Word, scene: Scene) -> str:
    """Like any, for what is compared and not shown."""
    return _UNKNOWN.format("an argument") if word.splits and not word.bland else ""


def _name(word: Word, scene: Scene) -> str:
    """A name, a number, a place in a tree: one word without blanks or odd signs."""
    if word.opaque:
        return "" if word.bland else _UNKNOWN.format("a name")
    return "" if _NAME.fullmatch(word.text) else f"{_shown(word)} is not a plain name."


def _hidden(word: Word) -> bool:
    """True when it is not known; what xargs adds only fits where everything is harmless."""
    return word.opaque and not word.bland and not (word.glob and word.text == "*")


def _plain_path(word: Word) -> str:
    if word.opaque and not word.bland:
        return _UNKNOWN.format("a path")
    return ""


def _file(word: Word, scene: Scene) -> str:
    """A file whose contents are shown."""
    if word.text == "-":
        return ""
    if word.text[:1] == "@" and len(word.text) > 1:  # some tools take more arguments from a file
        word = Word(word.text[1:], word.opaque, word.splits, word.glob, word.bare, word.bland)
    return _plain_path(word) or scene.read(word)


def _tree(word: Word, scene: Scene) -> str:
    """A directory whose files are shown, with all below it."""
    return _plain_path(word) or scene.read(word, below=True)


def _within(word: Word, scene: Scene) -> str:
    """A path inside of a repository, or the name of a commit; elsewhere, all below it is shown."""
    odd = word.text[:1] in ("/", "~", ".") or scene.secrets.holds(scene.cwd, below=True)
    return (_tree if odd and not _home(scene, word) else _file)(word, scene)


def _home(scene: Scene, word: Word) -> bool:
    """True for what lies in a directory of somebody's own, not for the whole of a home."""
    return (
        scene.cwd.startswith("/home/") and scene.cwd.count("/") > 2 and word.text[:1] not in "/~."
    )


def _yq(word: Word, scene: Scene) -> str:
    """An expression; one that is also the name of a file is read as that file."""
    return _language("yq")(word, scene) or _file(word, scene)


def _path(word: Word, scene: Scene) -> str:
    """A path of which only the name and what is known of it are shown, whichever it is."""
    if "watchdog" in word.text:
        return "!Opening a watchdog starts the time until the machine is reset."
    return _UNKNOWN.format("a path") if _hidden(word) else ""


def _public(word: Word, scene: Scene) -> str:
    """A file of which only what is public is shown, such as a certificate."""
    return _path(word, scene)


def _null(word: Word, scene: Scene) -> str:
    """Where output may go: nowhere, or to where it would have gone."""
    if word.text in ("/dev/null", "-", "/dev/stdout", "/dev/stderr") and not word.opaque:
        return ""
    scene.write(word)
    return f"It writes to {_shown(word)}."


def _host(word: Word, scene: Scene) -> str:
    """A host, with a port or without."""
    if word.opaque:
        return _UNKNOWN.format("a host")
    if len(word.text) > HOST_CHARACTERS_MAX or not _HOST.fullmatch(word.text):
        return f"{_shown(word)} is not a host."
    return scene.reach(word.text)


def _dns(word: Word, scene: Scene) -> str:
    """What dig is told: names, types, +options, @servers."""
    if word.opaque:
        return _UNKNOWN.format("a name")
    if word.text[:1] == "@":
        return _host(Word(word.text[1:]), scene)
    if word.text[:1] == "+":
        return "" if _DNS_OPTION.fullmatch(word.text) else f"{_shown(word)} is no option."
    return "" if word.text == "." else _host(word, scene)


def _url(word: Word, scene: Scene) -> str:
    """An address that is only asked, not told."""
    if word.opaque:
        return _UNKNOWN.format("an address")
    parsed = _URL.fullmatch(word.text)
    if parsed is None:
        return f"{_shown(word)} is not an address that is known to be harmless."
    host = parsed[2]
    if _hands_out_credentials(host):
        scene.network.append(host)
        scene.sensitive.append(word.text)
        return f"?{host} may hand out credentials of the machine."
    if _REVEALING.search(word.text) or _REVEALING.search(posixpath.normpath(unquote(word.text))):
        scene.sensitive.append(word.text)
        return "?The answer, or the question, holds secrets."
    if parsed[1] == "telnet" and scene.fed:
        return "It would send out what it reads."
    return scene.reach(host)


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


def _pinned(word: Word, scene: Scene) -> str:
    """HOST:PORT:ADDRESS, where the address is what is spoken to."""
    if word.opaque or word.text.count(":") < 2:
        return _UNKNOWN.format("an address")
    address = word.text.split(":", 2)[2]
    if any(map(_hands_out_credentials, address.split(","))):
        return f"?{address} may hand out credentials of the machine."
    return scene.reach(address)


def _unread(word: Word, scene: Scene) -> str:
    """A text that is not taken from a file by an @ before its name."""
    if word.text.startswith(("@", "<")):
        return f"{_shown(word)} is read from a file."
    return _text(word, scene)


def _resource(word: Word, scene: Scene) -> str:
    """Kinds of things in a cluster, with names or without, none of them secret."""
    if word.opaque or word.glob:
        return _UNKNOWN.format("a kind")
    for one in word.text.split(","):
        if _SECRET_KINDS.fullmatch(one):
            scene.sensitive.append(one)
            return f"?{one!r} holds secrets."
    return _name(word, scene)


def _script(word: Word, scene: Scene) -> str:
    """A command line inside of an argument."""
    if word.opaque:
        return "!What it would run is only known when it runs."
    script = parse(word.text)
    scene.inner.extend(script.commands)
    return script.trouble


def _language(name: str) -> Check:
    def checked(word: Word, scene: Scene) -> str:
        if word.opaque:
            return "!What it would run is only known when it runs."
        reason = LANGUAGES[name](word.text) or ""
        if reason[:1] == "?":
            scene.sensitive.append(word.text[:200])
        return reason

    return checked


KINDS: dict[str, Check] = {
    "text": _text,
    "any": _any,
    "blind": _blind,
    "name": _name,
    "file": _file,
    "tree": _tree,
    "here": _tree,
    "path": _path,
    "public": _public,
    "null": _null,
    "host": _host,
    "dns": _dns,
    "url": _url,
    "pinned": _pinned,
    "unread": _unread,
    "resource": _resource,
    "script": _script,
    **{name: _language(name) for name in LANGUAGES},
    "within": _within,
    "yq": _yq,
}

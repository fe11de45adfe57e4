"""What may be asked of a Docker engine, as a table: what is not in it is refused.

A request that passes is built again from its parsed form. Nothing that came from
outside is handed on as it came: no path, no header, no field of a body.

The engine ignores the case of field names and takes the last of duplicate fields.
So nothing is handed on but what was understood here, and a field that is not known is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar
from urllib.parse import unquote_to_bytes, urlencode

import msgspec

__all__ = [
    "About",
    "Passage",
    "Refused",
    "beginning_of",
    "find_passage",
    "narrow",
    "nothing",
    "program_of",
]

WORDS_MAX = 4096
T = TypeVar("T")


class _Program(msgspec.Struct, rename="pascal", forbid_unknown_fields=True, omit_defaults=True):
    cmd: list[str]
    attach_stdin: bool = False
    attach_stdout: bool = False
    attach_stderr: bool = False
    console_size: tuple[int, int] | None = None
    detach: bool = False
    detach_keys: str = ""
    env: list[str] | None = None
    privileged: bool = False
    tty: bool = False
    user: str = ""
    working_dir: str = ""


class _Beginning(msgspec.Struct, rename="pascal", forbid_unknown_fields=True, omit_defaults=True):
    detach: bool = False
    tty: bool = False
    console_size: tuple[int, int] | None = None


def nothing(body: bytes) -> bytes | str:
    """No body at all."""
    return "This request has no body." if body else b""


def program_of(body: bytes) -> bytes | str:
    """A program to run in a container: never privileged."""
    program = _read(body, _Program)
    if program is None:
        return "Only the program, its user, working directory, variables and streams may be set."
    if program.privileged:
        return "Privileged programs are refused."
    if not program.cmd or len(program.cmd) + len(program.env or ()) > WORDS_MAX:
        return f"A program must have between 1 and {WORDS_MAX} arguments and variables."
    return msgspec.json.encode(program)


def beginning_of(body: bytes) -> bytes | str:
    """The body that starts a program."""
    program = _read(body or b"{}", _Beginning)
    if program is None:
        return "Only Detach, Tty and ConsoleSize may be set when a program is started."
    return msgspec.json.encode(program)


def _read(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


FORBIDDEN = 403
QUERY_BYTES_MAX = 8 * 1024
FILTERS_MAX = 32
# Before 1.24 the start of a container could bring mounts and privileges along.
API_MINOR_MIN = 24
PROJECT_LABEL = "com.docker.compose.project"

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"
_PATH = re.compile(
    rf"(?P<version>/v1\.(?P<minor>[0-9]{{2}}))?/(?:"
    rf"(?P<plain>_ping|version)|containers/(?P<list>json)"
    rf"|containers/(?P<container>{_NAME})/(?P<verb>[a-z]+)"
    rf"|exec/(?P<program>[0-9a-f]{{64}})/(?P<deed>[a-z]+))"
)
_RAW_QUERY = re.compile(r"[A-Za-z0-9_.~!*'(),:;@/$=&%+?{}\[\]\"-]*")
_YES_OR_NO = re.compile(r"|0|1|true|false|True|False")
_COUNT = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9]{1,6}")
_TAIL = re.compile(r"|all|[0-9]{1,9}")
_MOMENT = re.compile(r"[0-9TZ:.+-]{0,40}")
_SIGNAL = re.compile(r"[A-Za-z0-9+-]{0,16}")
_UNTIL = re.compile(r"|not-running|next-exit|removed")
_COLUMNS = re.compile(r"[A-Za-z0-9 ,_:=-]{0,200}")
_FILTERS = re.compile(r"[^\0]{0,4096}")
# What a list may be narrowed by; not by images, volumes or containers of others.
_KNOWN_FILTERS = frozenset({"exited", "health", "id", "label", "name", "network", "status"})


class About(Enum):
    """What a request is about, and so what must be found out before it passes."""

    ENGINE = "engine"
    LIST = "list"
    CONTAINER = "container"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request does not pass, with the status that it is answered with."""

    reason: str
    status: int = FORBIDDEN


@dataclass(frozen=True, slots=True)
class Passage:
    """A request that passes, once it is known that what it is `about` is the lab's own.

    `enters` when it runs a program inside of a container, `upgrades` when both sides may speak.
    """

    method: str
    about: About
    name: str
    verb: str
    version: str = ""
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    enters: bool = False
    upgrades: bool = False

    def path(self, full_id: str = "") -> str:
        """Where the engine is asked about the thing with this id."""
        name = full_id or self.name
        place = {
            About.ENGINE: "",
            About.LIST: "/containers",
            About.CONTAINER: f"/containers/{name}",
            About.PROGRAM: f"/exec/{name}",
        }[self.about]
        return f"{self.version}{place}/{self.verb}"

    def target(self, full_id: str = "") -> str:
        """The path with its parameters."""
        query = urlencode(self.query)
        return f"{self.path(full_id)}?{query}" if query else self.path(full_id)


@dataclass(frozen=True, slots=True)
class _Verb:
    parameters: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    body: Callable[[bytes], bytes | str] = nothing
    enters: bool = False
    upgrades: bool = False


_STOPPING = {"t": _NUMBER, "signal": _SIGNAL}
_ENGINE = {("GET", "_ping"): _Verb(), ("HEAD", "_ping"): _Verb(), ("GET", "version"): _Verb()}
_LISTING = _Verb({"all": _YES_OR_NO, "limit": _NUMBER, "size": _YES_OR_NO, "filters": _FILTERS})
_CONTAINER = {
    ("GET", "json"): _Verb({"size": _YES_OR_NO}),
    ("GET", "logs"): _Verb(
        {
            **dict.fromkeys(("details", "follow", "stderr", "stdout", "timestamps"), _YES_OR_NO),
            "since": _MOMENT,
            "until": _MOMENT,
            "tail": _TAIL,
        }
    ),
    ("GET", "stats"): _Verb({"stream": _YES_OR_NO, "one-shot": _YES_OR_NO}),
    ("GET", "top"): _Verb({"ps_args": _COLUMNS}),
    ("POST", "start"): _Verb(),
    ("POST", "stop"): _Verb(_STOPPING),
    ("POST", "restart"): _Verb(_STOPPING),
    ("POST", "kill"): _Verb({"signal": _SIGNAL}),
    ("POST", "pause"): _Verb(),
    ("POST", "unpause"): _Verb(),
    ("POST", "wait"): _Verb({"condition": _UNTIL}),
    ("POST", "exec"): _Verb(body=program_of, enters=True),
}
_PROGRAM = {
    ("GET", "json"): _Verb(),
    ("POST", "start"): _Verb(body=beginning_of, enters=True, upgrades=True),
    ("POST", "resize"): _Verb({"h": _COUNT, "w": _COUNT}),
}


def find_passage(method: str, path: str, query: str, body: bytes) -> Passage | Refused:
    """What of this request may pass, or why none of it does. Pure.

    Whose the container is remains to be found out, at the engine and each time.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        return Refused("Unknown path.")
    if found["minor"] and int(found["minor"]) < API_MINOR_MIN:
        return Refused(f"API versions before 1.{API_MINOR_MIN} are not supported.")
    if plain := found["plain"]:
        about, name, word, verbs = About.ENGINE, "", plain, _ENGINE
    elif found["list"]:
        about, name, word, verbs = About.LIST, "", "json", {("GET", "json"): _LISTING}
    elif container := found["container"]:
        about, name, word, verbs = About.CONTAINER, container, found["verb"], _CONTAINER
    else:
        about, name, word, verbs = About.PROGRAM, found["program"], found["deed"], _PROGRAM
    verb = verbs.get((method, word))
    if verb is None:
        return Refused(f"{method} {word} is not an allowed operation.")
    pairs = _pairs(query, verb.parameters)
    if isinstance(pairs, str):
        return Refused(pairs)
    content = verb.body(body)
    if isinstance(content, str):
        return Refused(content)
    return Passage(
        method,
        about,
        name,
        word,
        version=found["version"] or "",
        query=pairs,
        body=content,
        enters=verb.enters,
        upgrades=verb.upgrades,
    )


def narrow(passage: Passage, project: str) -> Passage | Refused:
    """A list that is asked for the containers of this project only. Pure."""
    others = tuple(pair for pair in passage.query if pair[0] != "filters")
    text = dict(passage.query).get("filters", "")
    filters = _filters(text) if text else {}
    if isinstance(filters, str):
        return Refused(filters)
    labels = [*filters.get("label", []), f"{PROJECT_LABEL}={project}"]
    whole = msgspec.json.encode({**filters, "label": labels}).decode()
    return replace(passage, query=(*others, ("filters", whole)))


def _pairs(query: str, known: Mapping[str, re.Pattern[str]]) -> tuple[tuple[str, str], ...] | str:
    """The parameters, each once and each of a known form; or what is wrong with them."""
    if len(query) > QUERY_BYTES_MAX or _RAW_QUERY.fullmatch(query) is None:
        return "The query parameters are too long or contain characters that must be escaped."
    pairs: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, _, raw = part.partition("=")
        form = known.get(name)
        try:
            value = unquote_to_bytes(raw.replace("+", " ")).decode()
        except UnicodeDecodeError:
            return "The query parameters are not valid text."
        if form is None or name in pairs or form.fullmatch(value) is None:
            return (
                f"The parameter {name[:40]!r} is not allowed, or has a value that is not allowed."
            )
        pairs[name] = value
    return tuple(pairs.items())


def _filters(text: str) -> dict[str, list[str]] | str:
    """What a list is narrowed by, in the one form that we write; or what is wrong with it."""
    try:
        filters = msgspec.json.decode(text, type=dict[str, list[str] | dict[str, bool]])
    except (msgspec.MsgspecError, RecursionError):
        return "The filters cannot be read."
    if not _KNOWN_FILTERS.issuperset(filters) or sum(map(len, filters.values())) > FILTERS_MAX:
        return f"Lists can be filtered only by {', '.join(sorted(_KNOWN_FILTERS))}."
    return {name: list(values) for name, values in filters.items()}

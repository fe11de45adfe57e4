"""An Operation is a request that people and programs can make of an operator home, declared once.

The command line, the API, MCP, the console, the schemas and the reference derive from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from operator_protocols.domain.token import Role

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Entry
    from operator_sre.app.wiring import App

__all__ = [
    "ENVELOPE",
    "NUMBER_MAX",
    "TEXT_MAX",
    "After",
    "Effect",
    "Face",
    "Local",
    "Most",
    "Operation",
    "Page",
    "Parameter",
    "Place",
    "Reason",
    "Request",
    "Route",
    "Story",
    "Table",
    "Tell",
    "Tool",
    "View",
    "answer_of",
    "decision",
    "facts",
    "fields_of",
    "id_of",
    "load",
    "struct_for",
]

NUMBER_MAX = 2**63 - 1  # what a database can count to
# Fields of a result that describe the answer itself.
ENVELOPE = ("next_cursor", "schema_version")
REQUIRED: Any = msgspec.NODEFAULT
Face = Literal["api", "cli", "mcp"]
TEXT_MAX = 100_000  # of a word of the command line that nothing else bounds
# Parameters that many operations have.
Reason = Annotated[
    str,
    msgspec.Meta(
        max_length=TEXT_MAX,
        description="Recorded in the audit log.",
        extra={"api": msgspec.Meta(max_length=4000)},
    ),
]
# Where a page begins that is continued by a cursor, and how much of it there is.
After = Annotated[
    str,
    msgspec.Meta(
        max_length=100, description="Only rows after this one.", extra={"cli": False, "mcp": False}
    ),
]
Most = Annotated[
    int | None,
    msgspec.Meta(description="Maximum number of rows.", extra={"cli": False, "mcp": False}),
]


def id_of(description: str, *, most: int) -> msgspec.Meta:
    """The id of a request that a person decides on; the API bounds it to `most` characters."""
    api = msgspec.Meta(min_length=1, max_length=most, description=description)
    return msgspec.Meta(max_length=TEXT_MAX, description=description, extra={"api": api})


class Effect(StrEnum):
    """What an operation does: MCP serves the first two, a program never decides."""

    READ = "read"
    PROPOSE = "propose"
    DECIDE = "decide"
    CHANGE = "change"


class Local(StrEnum):
    """Why only the command line serves an operation, and neither the API nor MCP."""

    FILES = "it reads or writes files of this machine"
    MACHINE = "it is about this machine"
    SECRETS = "secrets and what receives them are managed on the machine that keeps them"
    AGENTS = "other programs use the API and MCP"
    STORE = "the store is managed on the machine that keeps it"
    TERMINAL = "its command runs in this terminal"


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of an operation, with their limits and descriptions.

    `extra` of a parameter's Meta may name its `option` on the command line and its `query` in the
    API, where these differ from the name of the field. Under `cli`, `api` or `mcp` it may hold
    another Meta for that face, or False for a parameter that the face does not have. A `hidden`
    parameter is not typed on the line: `hidden` is the question that a terminal asks for it.
    """


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of a Request."""

    name: str
    wire: str
    kind: Any
    default: Any
    meta: msgspec.Meta

    def meta_for(self, face: Face) -> msgspec.Meta | None:
        """Its limits and description in a face; None where the face does not have it."""
        own = (self.meta.extra or {}).get(face, self.meta)
        return own if isinstance(own, msgspec.Meta) else None

    @property
    def query(self) -> str:
        """Its name in the query of a URL."""
        name: str = (self.meta.extra or {}).get("query", self.wire)
        return name

    @property
    def hidden(self) -> str:
        """The question for a value that is not typed on the line; empty for all others."""
        question: str = (self.meta.extra or {}).get("hidden", "")
        return question

    @property
    def required(self) -> bool:
        """Whether a caller has to give it."""
        return self.default is REQUIRED

    @property
    def many(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self.kind) is tuple

    @property
    def enum(self) -> type[StrEnum] | None:
        """The enum of its values; None where any value is allowed."""
        kinds = (self.kind, *get_args(self.kind))
        enums = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum)]
        return enums[0] if enums else None


@dataclass(frozen=True, slots=True)
class Page:
    """How a list continues: `place` of the request is the `key` of the last row that was seen."""

    key: str
    place: str


@dataclass(frozen=True, slots=True)
class Route:
    """Where the API serves an operation; a parameter in braces is a part of the path.

    `id` names it in the OpenAPI document, and `body` the schema of what a POST is given beside it;
    `summary` stands there instead of the help where that is about the command. `etag` is the field
    of the answer whose state becomes the ETag. With `shown` a request needs If-Match: it names the
    function that reads the state, whose version `call` gets as `seen`. An answer is cached for all
    callers for `kept_s`.
    """

    method: Literal["GET", "POST"]
    path: str
    id: str
    body: str = ""
    errors: tuple[int, ...] = ()
    status: int = 200
    summary: str = ""
    etag: str = ""
    shown: str = ""
    kept_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Tool:
    """How MCP serves an operation; `hides` are fields of each row that a model has no use for.

    `picks` are the only fields of each row that are sent, with their paths, and `next_step` says
    what a person does with a row. No more rows than `rows_max` are sent.
    """

    name: str
    title: str
    description: str
    hides: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()
    next_step: str = ""
    rows_max: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the console: its name, its address, and the key that leads to it after `g`.

    Pages whose address begins with `also` belong to it.
    """

    name: str
    path: str
    key: str
    also: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows for people; `empty` is the sentence for none."""

    head: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """Entries of the ledger for people, in sentences; `plain` prints them without."""

    entries: Sequence[Entry]
    summaries: bool = False
    plain: bool = False


# What people are shown: lines, tables and stories, one below the other.
View = Sequence[str | Table | Story]
# Shows people a part of a view while the rest is being made.
Tell = Callable[[View], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation: who may ask for it, with what, what it answers, and what it changes.

    `name` is a noun and a verb. `call` is the dotted name of the function that does it, which is
    loaded when it is needed: it takes a home and the fields of the request. `result` is a
    dataclass with the fields of the answer, of which the command line leaves out `unprinted`, and
    prints `printed_if_any` only where they are not empty. `others` are dataclasses that may be the
    answer instead of it.
    `confirmation` names the function that returns the change to confirm first, and `confirmed` the
    function that reads the result when confirming it has done the work of `call`; with `is_typed`
    a person types the name of the affected object instead of y. `fixed` are further arguments of
    `call`. With `takes_unknown` unknown options on the command line are words. An operation that
    is not a command is served by the other faces only. `call` of a `live` operation takes `tell`
    too, and its command logs only errors, so that logs do not disturb its output. `call` of one
    with `each` yields an answer at a time until its command is stopped. `counted` says what `call`
    does with each of many entries: it gets `progress` to report their number to. `looks` names
    the flag of a request that only reads: it creates no home. An operation that `opens` the
    settings takes these instead of a home; without a place to open it takes its request alone.
    `local` says why only the command line serves it. `question` names the function that returns
    what a person has to agree to first, or ""; `call` gets it as `agreed`, and refuses when it
    has become another. `preview` shows a change before it is confirmed.
    """

    name: str
    help: str
    request: type[Request]
    result: type[Any]
    call: str
    view: Callable[[Any, datetime], View]
    others: tuple[type[Any], ...] = ()
    effect: Effect = Effect.READ
    role: Role = Role.VIEWER
    arguments: tuple[str, ...] = ()
    confirmation: str = ""
    confirmed: str = ""
    examples: tuple[str, ...] = ()
    page: Page | None = None
    route: Route | None = None
    tool: Tool | None = None
    place: Place | None = None
    unprinted: tuple[str, ...] = ()
    printed_if_any: tuple[str, ...] = ()
    exit_code: Callable[[Any], int] | None = None
    waiting: str = ""
    slow: bool = False
    fixed: tuple[tuple[str, Any], ...] = ()
    is_command: bool = True
    is_typed: bool = False
    takes_unknown: bool = False
    live: bool = False
    each: bool = False
    counted: str = ""
    looks: str = ""
    opens: Literal["home", "settings", "nothing"] = "home"
    local: Local | None = None
    question: str = ""
    preview: Callable[[Any], View] | None = None

    def __post_init__(self) -> None:
        """Refuse a declaration that would let a model decide, or a viewer change anything."""
        if self.tool and self.effect not in (Effect.READ, Effect.PROPOSE):
            raise ValueError(f"{self.name}: MCP can read and propose, and never decide.")
        if self.place and self.effect is not Effect.READ:
            raise ValueError(f"{self.name}: a page is read-only.")
        if self.effect is not Effect.READ and self.role is Role.VIEWER:
            raise ValueError(f"{self.name}: a viewer can only read.")
        if self.local and (self.route or self.tool or self.place):
            raise ValueError(f"{self.name}: only the command line serves a local operation.")
        if self.each and not self.local:
            raise ValueError(f"{self.name}: only the command line prints answers without an end.")
        if self.opens != "home" and not self.local:
            raise ValueError(f"{self.name}: only a local operation works without a home.")

    @property
    def verb(self) -> str:
        """The last word of the name."""
        return self.name.rpartition(" ")[2]

    @property
    def summary(self) -> str:
        """The first sentence of the help."""
        return self.help.partition("\n")[0]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The fields of the request."""
        return _parameters(self.request)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of the answer."""
        return fields_of(self.result)

    @property
    def rows(self) -> str:
        """The name of the field of the answer that holds the rows of a page."""
        kinds = {field.name: str(field.type) for field in fields(self.result)}
        return next(name for name in self.fields if kinds[name].startswith("tuple"))

    @property
    def printed(self) -> tuple[dict[str, Any], ...]:
        """What `--json` prints: the types of the fields of each answer, by their names.

        A field that is Annotated with a list or a mapping has that shape.
        """
        hidden, printed = (*self.unprinted, *self.printed_if_any), []
        for result in (self.result, *self.others):
            hints = get_type_hints(result, include_extras=True)
            names = [name for name in fields_of(result) if name not in hidden]
            printed.append({name: _shape_of(hints[name]) for name in names})
        return tuple(printed)

    def perform(
        self,
        home: Any,
        request: Request,
        tell: Tell | None = None,
        agreed: str = "",
        progress: Callable[[int], None] | None = None,
    ) -> Any:
        """What `call` returns for this request: a value, or a coroutine of one.

        `home` is what the operation opens: a home, the settings or nothing.
        """
        more = dict(self.fixed)
        if self.live:
            more["tell"] = tell or (lambda view: None)
        if self.question:
            more["agreed"] = agreed
        if self.counted:
            more["progress"] = progress or (lambda count: None)
        first = () if self.opens == "nothing" else (home,)
        return load(self.call)(*first, **msgspec.structs.asdict(request), **more)

    def to_ask(self, home: App, request: Request) -> str:
        """What a person has to agree to first; empty if there is nothing."""
        if not self.question:
            return ""
        question: str = load(self.question)(home, **msgspec.structs.asdict(request))
        return question

    def to_confirm(self, home: App, request: Request) -> Any:
        """The change that a person has to confirm first; None if there is none."""
        if not self.confirmation:
            return None
        return load(self.confirmation)(home, **msgspec.structs.asdict(request))

    def read_confirmed(self, home: App, request: Request, confirmation: Any) -> Any:
        """The result of a change that was made by confirming it."""
        if not self.confirmed:
            return self.perform(home, request)
        read, given = load(self.confirmed), msgspec.structs.asdict(request)
        given["confirmation"] = confirmation
        wanted = inspect.signature(read).parameters
        return read(home, **{name: value for name, value in given.items() if name in wanted})

    def document(self, found: Any) -> Any:
        """The answer: what `call` returned, as a `result`."""
        if isinstance(found, (self.result, *self.others)):
            return found
        if isinstance(found, tuple) and len(found) == len(self.fields) > 1:
            return self.result(*found)
        if len(self.fields) > 1 and all(hasattr(found, name) for name in self.fields):
            return self.result(**{name: getattr(found, name) for name in self.fields})
        if str(fields(self.result)[0].type).startswith("tuple"):
            found = tuple(found) if isinstance(found, list | tuple) else (found,)
        return self.result(found)


def decision(argument: str, view: Callable[[Any, datetime], View]) -> Callable[..., Operation]:
    """A factory of the operations by which an approver decides on the request in `argument`."""
    return partial(
        Operation, view=view, effect=Effect.DECIDE, role=Role.APPROVER, arguments=(argument,)
    )


def answer_of(decided_by: str, reason: str) -> str:
    """Who decided and why, in one line; empty before a decision."""
    return f"{decided_by}: {reason}".rstrip(": ") if decided_by else ""


def load(name: str) -> Callable[..., Any]:
    """The function of this dotted name."""
    module, _, function = name.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def fields_of(result: type[Any]) -> tuple[str, ...]:
    """The names of the fields of an answer."""
    return tuple(field.name for field in fields(result) if field.name not in ENVELOPE)


def _shape_of(hint: Any) -> Any:
    shape = hint.__metadata__[0] if get_origin(hint) is Annotated else hint
    return shape if isinstance(shape, list | dict) else hint


@cache
def _parameters(request: type[Request]) -> tuple[Parameter, ...]:
    found = []
    for field in msgspec.structs.fields(request):
        kind, meta = field.type, msgspec.Meta()
        if get_origin(kind) is Annotated:
            kind, *metas = get_args(kind)
            meta = next((data for data in metas if isinstance(data, msgspec.Meta)), meta)
        found.append(Parameter(field.name, field.encode_name, kind, field.default, meta))
    return tuple(found)


def struct_for(
    face: Face, name: str, operation: Operation, names: Sequence[str], **bases: Any
) -> type[msgspec.Struct]:
    """These fields of a request as a struct of a face, with the limits that hold there."""
    kept: list[Any] = []
    for parameter in operation.parameters:
        meta = parameter.meta_for(face)
        if parameter.name in names and meta is not None:
            default = msgspec.field(default=parameter.default, name=parameter.wire)
            kind: Any = Annotated[parameter.kind, meta]
            if parameter.kind == int | None:  # limits apply to a number, not to None
                kind = Annotated[int, meta] | None
            kept.append((parameter.name, kind, default))
    return msgspec.defstruct(
        name, kept, frozen=True, kw_only=True, forbid_unknown_fields=True, **bases
    )


def facts(found: Iterable[tuple[str, str]]) -> list[str]:
    """A name and a text on each line; facts without a text are left out.

    The lines of what a tool expects, such as a difference, stand below each other.
    """
    lines: list[str] = []
    for name, text in found:
        if text:
            first, *rest = text.split("\n") if name == "expects" else [text]
            lines += [f"{name:9} {first}", *(f"{'':9} {line}" for line in rest)]
    return lines

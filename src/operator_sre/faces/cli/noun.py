"""The commands of a noun, made from its operations."""

from __future__ import annotations

import inspect
import re
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.consent import (
    ProposeOption,
    YesOption,
    confirm,
    cross_boundary,
    read_hidden,
)
from operator_sre.faces.cli.options import JsonOption, config_of, keep_quiet, open_home
from operator_sre.faces.cli.output import clean, print_json, print_lines, print_table
from operator_sre.operations.operation import Operation, Parameter, Table, fields_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from msgspec import Meta

    from operator_sre.operations.operation import Request, View

__all__ = ["arrange", "command_of", "noun_of", "show"]

_JSON = inspect.Parameter(
    "as_json", inspect.Parameter.KEYWORD_ONLY, annotation=JsonOption, default=False
)
_CONFIRMED = (
    inspect.Parameter("yes", inspect.Parameter.KEYWORD_ONLY, annotation=YesOption, default=False),
    inspect.Parameter(
        "propose", inspect.Parameter.KEYWORD_ONLY, annotation=ProposeOption, default=False
    ),
)


def noun_of(noun: Any, words: Sequence[str] = ()) -> typer.Typer:
    """A noun with the verbs among these words, or with all of its verbs.

    `noun` is its module: SUMMARY, OPERATIONS, perhaps the default verb (DEFAULT), and the sentences
    of nouns inside of it (GROUPS).
    """
    default: str = getattr(noun, "DEFAULT", "")
    groups: dict[str, str] = getattr(noun, "GROUPS", {})
    commands = [operation for operation in noun.OPERATIONS if operation.is_command]
    app = typer.Typer(
        help=noun.SUMMARY, no_args_is_help=not default, invoke_without_command=bool(default)
    )
    inner = {
        name: typer.Typer(help=summary, no_args_is_help=True) for name, summary in groups.items()
    }
    for operation in [operation for operation in commands if operation.verb in words] or commands:
        place = inner.get(operation.name.split()[-2], app)
        settings = {"ignore_unknown_options": True} if operation.takes_unknown else None
        place.command(operation.verb, context_settings=settings)(command_of(operation))
    for name, group in inner.items():
        app.add_typer(group, name=name)
    if default:
        (shown,) = (operation for operation in commands if operation.verb == default)

        @app.callback()
        def run_default(context: typer.Context, as_json: JsonOption = False) -> None:
            if context.invoked_subcommand is None:
                command_of(shown)(context, as_json=as_json)

    return app


def arrange(app: typer.Typer, *verbs: str) -> None:
    """Have the help list the verbs of a noun in this order."""
    app.registered_commands.sort(key=lambda command: verbs.index(command.name or ""))


def command_of(operation: Operation) -> Callable[..., None]:
    """The function of a command; its signature declares the arguments and options."""

    def run(context: typer.Context, **given: Any) -> None:
        as_json = given.pop("as_json")
        names = [each.name for each in _answers_to(operation)]
        answers = {name: given.pop(name) for name in names}
        request = _request(operation, given)
        looks = bool(operation.looks) and getattr(request, operation.looks)
        with _open_place(context, operation, looks=looks) as app:
            if operation.live:
                keep_quiet(app.config)
            if question := operation.to_ask(app, request):
                confirm(clean(question), **answers)
            change = operation.to_confirm(app, request)
            if operation.preview and change is not None and not as_json:
                show(operation.preview(change))
            word = change.destinations[0] if change is not None and operation.is_typed else ""
            if change is not None and (
                done := cross_boundary(app, change, **answers, as_json=as_json, word=word)
            ):
                found = operation.read_confirmed(app, request, done)
            else:
                with _waiting(operation) as progress:
                    found = operation.perform(
                        app,
                        request,
                        tell=None if as_json else show,
                        agreed=question,
                        progress=progress,
                    )
            if operation.each:
                _print_each(operation, found, as_json=as_json)
                return
            if inspect.iscoroutine(found):
                from operator_sre.faces.cli.signals import run_until_stopped

                with _waiting(operation):
                    found = run_until_stopped(found)
            document = operation.document(found)
            if as_json:
                fields = {name: getattr(document, name) for name in fields_of(type(document))}
                hidden = {*operation.unprinted}
                hidden |= {name for name in operation.printed_if_any if not fields[name]}
                print_json({name: value for name, value in fields.items() if name not in hidden})
            else:
                now = app.clock.now() if operation.opens == "home" else datetime.now(UTC)
                show(operation.view(document, now))
        if operation.exit_code and (code := operation.exit_code(document)):
            raise typer.Exit(code)

    start = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    words = [
        _word(parameter, meta, argument=parameter.name in operation.arguments)
        for parameter in sorted(
            operation.parameters, key=lambda it: it.name not in operation.arguments
        )
        if (meta := parameter.meta_for("cli")) is not None and not parameter.hidden
    ]
    signature = inspect.Signature([start, *words, *_answers_to(operation), _JSON])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.__doc__ = operation.help
    return run


def _answers_to(operation: Operation) -> tuple[inspect.Parameter, ...]:
    """The options by which a person answers beforehand what the operation asks."""
    if operation.confirmation:
        return _CONFIRMED
    return _CONFIRMED[:1] if operation.question else ()


def _waiting(operation: Operation) -> AbstractContextManager[Callable[[int], None] | None]:
    """Shows what is under way, where an operation says that it takes long."""
    if not operation.waiting and not operation.counted:
        return nullcontext()
    from operator_sre.faces.cli.progress import progress, waiting

    return progress(operation.counted) if operation.counted else waiting(operation.waiting)


def _print_each(operation: Operation, rows: AsyncIterator[Any], *, as_json: bool) -> None:
    """Print answers as they come; a program gets each as a document on its own line."""
    from operator_sre.faces.cli.signals import run_until_stopped

    async def listen() -> None:
        async for row in rows:
            document = operation.document(row)
            if as_json:
                names = fields_of(type(document))
                print_json({name: getattr(document, name) for name in names}, line=True)
            else:
                show(operation.view(document, datetime.now(UTC)))

    run_until_stopped(listen())


@contextmanager
def _open_place(context: typer.Context, operation: Operation, *, looks: bool) -> Iterator[Any]:
    """What the operation opens: the home, the settings or nothing."""
    if operation.opens == "home":
        with open_home(context, looks=looks) as app:
            yield app
    else:
        yield config_of(context) if operation.opens == "settings" else None


def _word(parameter: Parameter, meta: Meta, *, argument: bool) -> inspect.Parameter:
    """One parameter as an argument or an option of the line."""
    kind: Any = parameter.kind
    default = inspect.Parameter.empty if parameter.required else parameter.default
    if parameter.many and parameter.required:
        kind = list[str]
    elif parameter.many:
        kind, default = list[str] | None, None
    elif parameter.enum is not None:
        kind, default = str, default or ""
    least = meta.ge if meta.ge is not None else meta.gt
    limits: dict[str, Any] = (
        {"min": least, "max": meta.le} if kind in (int, float, int | None, float | None) else {}
    )
    if argument:
        metavar = (parameter.meta.extra or {}).get("metavar")
        option: Any = typer.Argument(help=meta.description, metavar=metavar, **limits)
    else:
        name = (parameter.meta.extra or {}).get("option") or f"--{parameter.wire.replace('_', '-')}"
        names = name if isinstance(name, tuple) else (name,)
        option = typer.Option(*names, help=meta.description, **limits)
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, option],
        default=default,
    )


def _request(operation: Operation, given: dict[str, Any]) -> Request:
    """The request of a command line; UsageError names the invalid word."""
    values: dict[str, Any] = {}
    for parameter in operation.parameters:
        if parameter.hidden:
            values[parameter.name] = read_hidden(parameter.hidden)
        if parameter.name not in given:
            continue
        words = (given[parameter.name] or []) if parameter.many else [given[parameter.name]]
        read = [_read(parameter, word) for word in words]
        values[parameter.name] = tuple(read) if parameter.many else read[0]
    return operation.request(**values)


def _read(parameter: Parameter, word: Any) -> Any:
    """One word of the line, converted for its parameter."""
    extra, meta = parameter.meta.extra or {}, parameter.meta_for("cli") or parameter.meta
    if parameter.enum is not None:
        if not word:
            return parameter.default
        if word not in set(parameter.enum):
            called = extra.get("called", parameter.wire)
            known = re.sub("y$", "ie", called.split()[-1]).capitalize()
            raise UsageError(
                f"There is no {called} {word!r}.",
                next_step=f"{known}s: {', '.join(parameter.enum)}.",
            )
        return parameter.enum(word)
    if isinstance(word, str):
        least, most = meta.min_length or 0, meta.max_length or len(word)
        if not least <= len(word) <= most:
            raise UsageError(f"{parameter.wire!r} has between {least} and {most} characters.")
    return word


def show(view: View) -> None:
    """Print a view."""
    for part in view:
        if isinstance(part, str):
            print_lines([clean(part)])
        elif not isinstance(part, Table):
            from operator_sre.faces.cli.story import show_entries, tell

            if part.plain:
                show_entries(part.entries, as_json=False)
            else:
                tell(part.entries, summaries=part.summaries)
        elif part.rows:
            print_table(part.head, part.rows)
        else:
            print_lines([part.empty])

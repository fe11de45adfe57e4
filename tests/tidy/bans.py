"""What our code does not do, each with what it does instead."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache

from tests.tidy.sources import Source, aliases, dotted, functions, imports, walk

__all__ = ["banned", "broad_excepts", "lent_ports", "places", "prints", "sleeps"]

_CALLS = {
    "asyncio.create_subprocess_shell": "an argument list with `create_subprocess_exec`",
    "asyncio.get_event_loop": "`asyncio.get_running_loop()`",
    "datetime.datetime.today": "the Clock, or `datetime.now(UTC)`",
    "datetime.datetime.utcfromtimestamp": "`datetime.fromtimestamp(seconds, UTC)`",
    "datetime.datetime.utcnow": "the Clock, or `datetime.now(UTC)`",
    "eval": "a grammar, or `ast.literal_eval`",
    "exec": "a function, or an import",
    "os.popen": "an argument list with `subprocess.run`",
    "os.system": "an argument list with `subprocess.run`",
    "subprocess.getoutput": "an argument list with `subprocess.run`",
    "subprocess.getstatusoutput": "an argument list with `subprocess.run`",
    "tempfile.mktemp": "`tempfile.mkstemp` or `tempfile.TemporaryDirectory`",
}
_MODULES = {"dill", "marshal", "pickle", "shelve"}
_SLEEPS = {"anyio.sleep", "asyncio.sleep", "time.sleep", "trio.sleep"}
_BROAD = {"BaseException", "BaseExceptionGroup", "Exception", "ExceptionGroup"}


# A file without these words cannot break the rule, by whatever names it imports them.
_BANNED_WORDS = re.compile(
    rf"\b(?:{'|'.join(sorted({name.rpartition('.')[2] for name in _CALLS} | _MODULES))})\b"
    r"|\bnow\b|\bpreexec_fn\b|\bshell\b|\bsqlite3\b"
)
_BROAD_WORDS = re.compile(r"\b(?:except|suppress)\b")
_PRINT_WORDS = re.compile(r"\bp?print\b")
_SLEEP_WORDS = re.compile(r"\bsleep\b")
_PORT_WORDS = re.compile(r"\bgetsockname\b")


@cache
def banned(source: Source) -> list[str]:
    """Calls, imports and options that have a safer replacement."""
    if not _BANNED_WORDS.search(source.text):
        return []
    names = aliases(source.tree)
    found = [finding for node in imports(source.tree) for finding in _imports(node)]
    for node in source.nodes:
        if isinstance(node, ast.Call):
            found += _calls(node, names)
        for item in node.items if isinstance(node, ast.With) else ():
            call = item.context_expr
            if isinstance(call, ast.Call) and dotted(call.func, names) == "sqlite3.connect":
                unclosed = "`with closing(sqlite3.connect(...)) as connection`"
                found.append(
                    (call.lineno, "sqlite3.connect in a `with` that only commits", unclosed)
                )
    return [
        f"{source.path}:{line} uses {what}; instead: {instead}" for line, what, instead in found
    ]


def _calls(node: ast.Call, names: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    name = dotted(node.func, names)
    if name in _CALLS:
        yield node.lineno, name, _CALLS[name]
    if name == "datetime.datetime.now" and not node.args and not node.keywords:
        yield node.lineno, f"{name} without a zone", "the Clock, or `datetime.now(UTC)`"
    for keyword in node.keywords:
        if keyword.arg == "preexec_fn":
            yield node.lineno, "preexec_fn", "`start_new_session`, `process_group`, `user`"
        if keyword.arg == "shell" and not _is_false(keyword.value):
            yield node.lineno, "shell=True", "an argument list"


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str, str]]:
    modules = (
        [alias.name for alias in node.names]
        if isinstance(node, ast.Import)
        else [node.module or ""]
        if not node.level
        else []
    )
    for module in modules:
        if module.partition(".")[0] in _MODULES:
            yield node.lineno, module, "`json`, with a dataclass at the edge"


@cache
def broad_excepts(source: Source) -> list[str]:
    """The places that catch any error at all and keep it, as `path:function`."""
    return places(source, _BROAD_WORDS, _is_broad)


@cache
def prints(source: Source) -> list[str]:
    """The places that print by themselves."""
    return places(
        source,
        _PRINT_WORDS,
        lambda node, names: _is_call(node, names, {"print", "pprint.pprint"}),
    )


@cache
def sleeps(source: Source) -> list[str]:
    """The places that wait for time to pass; a sleep of zero only lets others run."""
    return places(
        source,
        _SLEEP_WORDS,
        lambda node, names: _is_call(node, names, _SLEEPS) and not _sleeps_for_zero(node),
    )


@cache
def lent_ports(source: Source) -> list[str]:
    """The places that learn a free port from a socket and close it: others may take the port."""
    return places(source, _PORT_WORDS, lambda node, _: _lends_port(node))


def places(
    source: Source, words: re.Pattern[str], holds: Callable[[ast.AST, dict[str, str]], bool]
) -> list[str]:
    """Where in a file something holds, as `path:function` of the innermost function.

    Without one of the words nothing can hold, so that such a file is not even parsed.
    """
    if not words.search(source.text):
        return []
    names = aliases(source.tree)
    found = [node for node in source.nodes if holds(node, names)]
    if not found:
        return []
    owner: dict[ast.AST, str] = {}
    for function in functions(source):  # outer functions come first, inner ones overwrite
        owner.update(dict.fromkeys(walk(function.node), function.place))
    return list(dict.fromkeys(owner.get(node, f"{source.path}:(module)") for node in found))


def _is_call(node: ast.AST, names: dict[str, str], wanted: set[str]) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func, names) in wanted


def _lends_port(node: ast.AST) -> bool:
    """A `with` of nothing but the binding of a socket, and the asking where it is bound."""
    if not isinstance(node, ast.With) or len(node.body) > 2:
        return False
    calls = [each for line in node.body for each in ast.walk(line) if isinstance(each, ast.Call)]
    called = {dotted(each.func, {}).rpartition(".")[2] for each in calls}
    waits = any(isinstance(each, ast.Yield) for line in node.body for each in ast.walk(line))
    return "getsockname" in called and called <= {"bind", "getsockname", "listen"} and not waits


def _sleeps_for_zero(node: ast.AST) -> bool:
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return isinstance(first, ast.Constant) and first.value == 0


def _is_broad(node: ast.AST, names: dict[str, str]) -> bool:
    if isinstance(node, ast.ExceptHandler):
        return not _raises_again(node) and (node.type is None or _names_broad(node.type, names))
    if _is_call(node, names, {"contextlib.suppress"}) and isinstance(node, ast.Call):
        return any(_names_broad(argument, names) for argument in node.args)
    return False


def _raises_again(node: ast.ExceptHandler) -> bool:
    """A handler that ends with the same error again cleans up; it hides nothing."""
    last = node.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _names_broad(node: ast.expr, names: dict[str, str]) -> bool:
    kinds = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(dotted(kind, names).removeprefix("builtins.") in _BROAD for kind in kinds)

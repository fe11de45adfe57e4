"""Tests that cannot fail: those that assert nothing, and those whose asserts always hold.

A test asserts by itself, or by a helper of the tests that it names, however many helpers stand
between. A method is found by the class that a parameter is said to have; one of an unknown object
counts when all methods of that name in the tests assert.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeGuard

from tests.tidy.sources import Source, walk

__all__ = ["idle_tests"]

# Each of these fails a test by itself.
_OF_PYTEST = {"raises", "warns", "fail", "deprecated_call"}
_OF_MOCKS = ("assert_called", "assert_not_called", "assert_any_call", "assert_has_calls")
# It calls what it is given, and only that can say what has to hold.
_NO_HELPERS = {"tests/every.py"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class _Helper:
    """A function of the tests: what it asserts by itself, and whom it names."""

    path: str
    owner: str
    name: str
    line: int
    asserts: bool = False
    names: set[str] = field(default_factory=set)
    methods: set[tuple[str, str]] = field(default_factory=set)  # the class, where it is known

    @property
    def place(self) -> str:
        return f"{self.path}:{self.owner}{self.name}"


_Imported = Mapping[str, Mapping[str, str]]


def idle_tests(sources: Iterable[Source]) -> list[str]:
    """Every test, and every assert, that nothing can make fail but an error."""
    helpers: list[_Helper] = []
    imported: dict[str, dict[str, str]] = {}
    found: list[str] = []
    for source in sources:  # each is parsed once, and not kept
        nodes = source.nodes
        imported[source.path] = _imported(nodes)
        helpers += _helpers(source.path, nodes)
        found += _always_true(source.path, nodes)
        found += _maybe_never(source.path, nodes)
    _spread(helpers, imported)
    silent = [one for one in helpers if one.name.startswith("test_") and not one.asserts]
    found += [
        f"{one.path}:{one.line} {one.name} asserts nothing: say what has to hold" for one in silent
    ]
    return found


def _spread(helpers: list[_Helper], imported: _Imported) -> None:
    """Whoever names one that asserts, asserts as well."""
    usable = [one for one in helpers if one.path not in _NO_HELPERS and one.name[:5] != "test_"]
    known = {one.place: one for one in usable}
    methods: dict[str, list[_Helper]] = {}
    for one in usable:
        if one.owner:
            methods.setdefault(one.name, []).append(one)
    is_new = True
    while is_new:
        is_new = False
        for one in helpers:
            if not one.asserts and any(_named(one, known, methods, imported)):
                one.asserts = is_new = True


def _named(
    one: _Helper,
    known: Mapping[str, _Helper],
    methods: Mapping[str, list[_Helper]],
    imported: _Imported,
) -> Iterator[bool]:
    """Of each that it names, whether that asserts."""
    elsewhere = imported[one.path]
    for name in one.names:
        found = known.get(elsewhere.get(name, f"{one.path}:{name}"))
        yield found is not None and found.asserts
    for owner, name in one.methods:
        place = f"{elsewhere.get(owner, f'{one.path}:{owner}')}.{name}"
        if place in known:
            yield known[place].asserts
        elif name in methods:
            yield all(found.asserts for found in methods[name])


def _imported(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Where the names that a file has from other files of the tests are defined."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            path = f"{(node.module or '').replace('.', '/')}.py"
            found |= {one.asname or one.name: f"{path}:{one.name}" for one in node.names}
    return found


def _helpers(path: str, nodes: list[ast.AST]) -> Iterator[_Helper]:
    owners = {
        id(inner): f"{node.name}."
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for inner in node.body
    }
    for node in nodes:
        if isinstance(node, _FUNCTIONS):
            owner = owners.get(id(node), "")
            found = _Helper(path, owner, node.name, node.lineno)
            # A fixture may have the name of a helper, and what it asserts is about itself.
            given = {one.arg: one.annotation for one in (*node.args.args, *node.args.kwonlyargs)}
            kinds = {name: kind.id for name, kind in given.items() if isinstance(kind, ast.Name)}
            kinds["self"] = owner[:-1]
            for one in chain.from_iterable(map(walk, node.body)):
                if isinstance(one, ast.Name):
                    found.names.add(one.id)
                elif isinstance(one, ast.Attribute):
                    thing = one.value.id if isinstance(one.value, ast.Name) else ""
                    found.methods.add((kinds.get(thing, ""), one.attr))
                elif isinstance(one, ast.Assert | ast.Raise | ast.Call) and not found.asserts:
                    found.asserts = _is_assertion(one)
            found.names -= given.keys()
            yield found


def _is_assertion(node: ast.AST) -> bool:
    """Whether this fails a test by itself."""
    match node:
        case ast.Assert():
            return True
        case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
            return name == "AssertionError"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr=name)):
            return name in _OF_PYTEST
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.startswith(_OF_MOCKS)
    return False


def _always_true(path: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Asserts that hold whatever happens."""
    for node in nodes:
        if isinstance(node, ast.Assert) and _is_always_true(node.test):
            yield f"{path}:{node.lineno} always holds: {ast.unparse(node.test)}"


def _is_always_true(test: ast.expr) -> bool:
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=[_, *_]) | ast.List(elts=[_, *_]) | ast.Lambda() | ast.JoinedStr():
            return True
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(_is_always_true, values))
        case ast.Compare(
            left=ast.Name(id=left),
            ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()],
            comparators=[ast.Name(id=right)],
        ):
            return left == right
    return False


def _maybe_never(path: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Tests whose asserts all stand in loops that may run for nothing."""
    for node in nodes:
        if (
            isinstance(node, _FUNCTIONS)
            and node.name.startswith("test_")
            and not any(isinstance(one, ast.Assert) for one in node.body)
        ):
            loop = _only_loop(node.body, _filled_names(node))
            if loop is not None:
                what = f"{ast.unparse(loop.iter)} may be empty, and then nothing is asserted"
                yield f"{path}:{loop.lineno} {node.name}: {what}"


def _filled_names(function: _Function) -> set[str]:
    """What a test has written down itself before it loops over it."""
    found: set[str] = set()
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_filled(value, found):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                if _is_filled(value, found):
                    found.add(name)
    return found


def _only_loop(body: list[ast.stmt], filled: set[str]) -> ast.For | ast.AsyncFor | None:
    """The first of the loops that hold every assert of a body, unless one of them surely runs."""
    loops = []
    for statement in body:
        if not any(map(_says, walk(statement))):
            continue
        if isinstance(statement, ast.For | ast.AsyncFor) and not _is_filled(statement.iter, filled):
            loops.append(statement)
        elif _holds_only(statement):
            inner = _only_loop(statement.body, filled)
            if inner is None:
                return None
            loops.append(inner)
        else:
            return None
    return loops[0] if loops else None


def _holds_only(
    statement: ast.stmt,
) -> TypeGuard[ast.For | ast.AsyncFor | ast.With | ast.AsyncWith]:
    """Whether it asserts nothing but by what stands in it."""
    if isinstance(statement, ast.With | ast.AsyncWith):
        return not any(_says(one.context_expr) for one in statement.items)
    return isinstance(statement, ast.For | ast.AsyncFor)


def _says(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="expect_each")):
            return True
    return _is_assertion(node)


def _is_filled(over: ast.expr, filled: set[str]) -> bool:
    """Whether a loop over this surely runs: it is written down, here or in a table in capitals."""
    match over:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return bool(elements)
        case ast.Dict(keys=keys):
            return bool(keys)
        case ast.Constant(value=str() as text):
            return bool(text)
        case ast.Name(id=name):
            return name in filled or name.strip("_").isupper()
        case ast.Attribute(attr=name):
            return name.strip("_").isupper()
        case ast.Call(func=ast.Name(id="range" | "dict")):
            return bool(over.args or over.keywords)
        case ast.Call(
            func=ast.Name(id="enumerate" | "zip" | "sorted" | "reversed" | "list" | "tuple" | "set")
        ):
            return bool(over.args) and all(_is_filled(one, filled) for one in over.args)
        case ast.Call(func=ast.Attribute(value=value, attr="items" | "values" | "keys" | "split")):
            return _is_filled(value, filled)
        case ast.Call(func=ast.Attribute(attr="gather")):
            return bool(over.args) and all(_is_filled(one, filled) for one in over.args)
        case ast.Await(value=value) | ast.Starred(value=value):
            return _is_filled(value, filled)
        case ast.GeneratorExp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]):
            return not first.ifs and _is_filled(first.iter, filled)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_filled(left, filled) or _is_filled(right, filled)
    return False

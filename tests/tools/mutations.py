"""Mutation testing: change one place of the code, and run the tests of its folder.

    python -m tests.tools.mutations --seed 7 --sample 12 --seconds 500

A mutation that no test notices survives: it shows code without effect, or a promise without a
test. The sample is drawn from each area by the seed, so that a figure can be measured again. The
tests are collected once, and run once to see which of them call which function. Each mutation
replaces one function in a process forked for it, and the tests that call it run, the fastest first.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import inspect
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import IO, Any, cast

import pytest

__all__ = ["AREAS", "Area", "Mutation", "apply", "mutated", "mutations_of"]

SOURCE = Path(__file__).parents[2] / "src" / "operator_sre"
KILLED = 17
# Several times what the tests of an area take.
CPU_S_MAX = 40
TEST_S_MAX = 60


@dataclass(frozen=True, slots=True)
class Area:
    """Modules, and the tests that have to notice when one of them is wrong."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


AREAS = (
    Area(
        "verdict",
        ("gate/judge.py",),
        (
            *("tests/gate/test_judge.py", "tests/gate/test_typed.py", "tests/gate/test_foresee.py"),
            *("tests/gate/test_surroundings.py", "tests/gate/test_confinement.py"),
            *("tests/gate/test_boundary.py", "tests/gate/policy"),
        ),
    ),
    Area(
        "permit",
        ("gate/permits.py",),
        (
            *("tests/gate/test_permits.py", "tests/gate/test_requests.py"),
            *("tests/gate/test_late_answers.py", "tests/gate/test_limits.py"),
            *("tests/gate/test_restraint.py", "tests/gate/test_authority.py"),
            *("tests/gate/test_standing_rules.py", "tests/gate/test_session.py"),
            "tests/gate/test_asking.py",
        ),
    ),
    Area(
        "action",
        ("act.py", "executor/execute.py"),
        (
            *("tests/test_act.py", "tests/test_controls.py", "tests/executor/test_execute.py"),
            *("tests/executor/test_outcomes.py", "tests/executor/test_refusals.py"),
            *("tests/executor/test_recovery.py", "tests/executor/test_categories.py"),
        ),
    ),
    Area(
        "ledger",
        ("ledger/verify.py",),
        (
            *("tests/ledger/test_verify.py", "tests/ledger/test_anchors.py"),
            *("tests/ledger/test_careful_forgers.py", "tests/ledger/test_segments.py"),
            *("tests/ledger/test_sealing.py", "tests/ledger/test_signing.py"),
        ),
    ),
    Area("proof", ("verify/prove.py",), ("tests/verify",)),
    Area("tickets", ("tickets/desk.py",), ("tests/tickets",)),
    Area(
        "incident",
        ("pipeline.py",),
        ("tests/test_pipeline.py", "tests/test_many_targets.py", "tests/test_preconditions.py"),
    ),
)

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
_ANY_OR_ALL = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change inside of a function: the number of its node in a walk, and what becomes of it."""

    module: str
    function: str
    line: int
    node: int
    change: str


def mutations_of(module: str, source: str) -> list[Mutation]:
    """Every mutation of the code inside of functions; messages and types are left alone."""
    tree = ast.parse(source)
    numbers = {node: number for number, node in enumerate(ast.walk(tree))}
    return [
        Mutation(module, name, getattr(node, "lineno", function.lineno), numbers[node], change)
        for name, function in _functions(tree.body, "")
        for statement in function.body
        for node in ast.walk(statement)
        for change in _changes_of(node)
    ]


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods by their names; those inside of them belong to them."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", cast("ast.FunctionDef", node)


def _changes_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield "other comparison"
        case ast.BoolOp():
            yield "other connective"
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left) if not _is_text(left):
            yield "other arithmetic"
        case ast.UnaryOp(op=ast.Not()):
            yield "without not"
        case ast.Constant(value=bool()):
            yield "other truth"
        case ast.Constant(value=int() | float()):
            yield "one more"
        case ast.Call(func=ast.Name(id=name)) if name in _ANY_OR_ALL:
            yield "other quantity"
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            if not isinstance(test, ast.Constant):
                yield "always"
            yield "never"
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield "none instead"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign():
            yield "left out"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def mutated(source: str, mutation: Mutation) -> str:
    """The module with this one change."""
    tree = ast.parse(source)
    target = list(ast.walk(tree))[mutation.node]

    class Change(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return _change(node, mutation.change) if node is target else self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Change().visit(tree)))


def _change(node: ast.AST, change: str) -> ast.AST:
    new: ast.AST = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]):
            new.ops = [_OTHER[type(op)]()]  # type: ignore[list-item]
        case ast.BoolOp() | ast.BinOp():
            new.op = _OTHER[type(new.op)]()  # type: ignore[assignment]
        case ast.UnaryOp():
            return new.operand
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(number) | float(number)):
            new.value = number + 1
        case ast.Call(func=ast.Name(id=name) as function):
            function.id = _ANY_OR_ALL[name]
        case ast.If() | ast.IfExp() | ast.While():
            new.test = ast.Constant(change == "always")
        case ast.Return():
            new.value = ast.Constant(None)
        case _:
            return ast.Pass()
    return new


def _draw(area: Area, seed: int, sample: int) -> tuple[int, list[Mutation]]:
    """How many mutations are possible in an area, and those of the sample."""
    possible = [
        mutation
        for module in area.modules
        for mutation in mutations_of(module, (SOURCE / module).read_text())
    ]
    chosen = random.Random(f"{seed} {area.name}").sample(possible, min(sample, len(possible)))
    return len(possible), chosen


def apply(mutation: Mutation) -> None:
    """Have the function of this process do what the mutation says, wherever it is imported."""
    name = mutation.module.removesuffix(".py").replace("/", ".")
    place: Any = import_module(f"operator_sre.{name}")
    for part in mutation.function.split("."):
        place = inspect.getattr_static(place, part)
    place = getattr(place, "fget", None) or getattr(place, "__func__", place)
    text = mutated((SOURCE / mutation.module).read_text(), mutation)
    codes = [compile(text, mutation.module, "exec", dont_inherit=True)]
    while codes:
        code = codes.pop()
        if code.co_qualname == mutation.function:
            inspect.unwrap(place).__code__ = code
            return
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    raise LookupError(mutation.function)


@dataclass(slots=True)
class _Trials:
    """Runs the collected tests once for each mutation, each time in a process of its own."""

    area: Area
    seed: int
    sample: int
    until: float

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        possible, sample = _draw(self.area, self.seed, self.sample)
        with tempfile.TemporaryFile("w+") as record:
            usual = _try(session.items, None, record)
            record.seek(0)
            calls = json.loads(record.read() or "{}")
        if usual != "survived":
            _tell(f"{self.area.name}: without a mutation the tests are {usual}")
            return True
        found: Counter[str] = Counter()
        for mutation in sample:
            if time.monotonic() > self.until:
                break
            name = f"{mutation.module} {mutation.function}"
            items = [item for item in session.items if name in calls[item.nodeid]["calls"]]
            items.sort(key=lambda item: calls[item.nodeid]["seconds"])
            outcome = _try(items, mutation)
            found[outcome] += 1
            if outcome != "killed":
                place = f"{mutation.module}:{mutation.line} {mutation.function}"
                _tell(f"  {outcome}: {place}: {mutation.change}")
        _tell(f"{self.area.name}: {possible} possible, {dict(found)}")
        return True


def _try(items: list[pytest.Item], mutation: Mutation | None, record: IO[str] | None = None) -> str:
    """What the tests say of a mutation: killed, survived or timed out."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        cpu_s = CPU_S_MAX if record is None else CPU_S_MAX * 10
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            if mutation is not None:
                apply(mutation)
            calls = {}
            for item, following in pairwise([*items, None]):
                assert item is not None
                began = time.process_time()
                with _calls_in(SOURCE, wanted=record is not None) as called:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                seconds = time.process_time() - began
                calls[item.nodeid] = {"calls": sorted(called), "seconds": seconds}
                if item.session.testsfailed:
                    os._exit(KILLED)
            if record is not None:
                json.dump(calls, record)
                record.flush()
            os._exit(0)
        finally:
            os._exit(KILLED)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what the tests of a wrong program left
    return {0: "survived", KILLED: "killed"}.get(os.waitstatus_to_exitcode(status), "timed out")


@contextlib.contextmanager
def _calls_in(folder: Path, *, wanted: bool) -> Iterator[set[str]]:
    """Gather which functions of a folder are called, each as `MODULE NAME`, where it is wanted."""
    seen: set[CodeType] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    called: set[str] = set()
    if wanted:
        threading.setprofile(look)
        sys.setprofile(look)
    try:
        yield called
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        for code in seen:
            if code.co_filename.startswith(f"{folder}/"):
                module = code.co_filename.removeprefix(f"{folder}/")
                called.add(f"{module} {code.co_qualname.partition('.<locals>')[0]}")


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Try a sample of each area, and print every mutation that was not killed."""
    parser = argparse.ArgumentParser(description="Change the code in one place, and run its tests.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--sample", type=int, default=12, help="mutations of each area")
    parser.add_argument("--seconds", type=float, default=500.0, help="begin no mutation later")
    parser.add_argument("areas", nargs="*", metavar="AREA", help="these areas only")
    chosen = parser.parse_args()
    until = time.monotonic() + chosen.seconds
    for area in AREAS:
        if area.name in (chosen.areas or [area.name]):
            arguments = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not slow and not system"]
            arguments += ["-o", f"timeout={TEST_S_MAX}"]
            trials = _Trials(area, chosen.seed, chosen.sample, until)
            child = os.fork()
            if child == 0:
                os._exit(pytest.main([*arguments, *area.tests], plugins=[trials]))
            os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())

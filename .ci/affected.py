"""Run the tests that a change is most likely to break: `make quick`.

    .venv/bin/python .ci/affected.py                what differs from HEAD, or is not tracked yet
    .venv/bin/python .ci/affected.py --base main    what differs from where the branch left main
    .venv/bin/python .ci/affected.py --list         print the test files and run nothing

Nearly every test reaches nearly every module through some chain of imports, so the length of the
chain decides. A test file is near a changed file when it imports or names it, with at most one
module in between, when it is named after it, or when it lies in the folder of tests that mirrors
the folder of the change. The nearest and cheapest run first, as many as fit the time budget. A file
that takes long, as those do that start servers, runs only when it tests the changed file directly.
Other options go to pytest.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

__all__ = [
    "Choice",
    "Nearness",
    "NoGitError",
    "Tree",
    "affected",
    "changed_files",
    "choose",
    "main",
    "read_tree",
]

BUDGET_S = 30.0
WORKERS = 2
# Two steps: one module lies between the test and what has changed.
STEPS_MAX = 2
# A test file that takes longer has to be at most one step away.
LONG_S = 10.0
# What a test file counts that was never timed: a few of the nearest run, and are timed.
UNKNOWN_S = 10.0
# What each file costs before its first test runs.
COLLECT_S = 0.1

# Written by tests/durations.py.
DURATIONS = ".pytest_cache/v/operator/durations"
# These read every file of the checkout.
READ_EVERYTHING = ("tests/tidy/test_sources.py", "tests/tidy/test_words.py")
# Every test begins with this one, so what it imports says nothing about any of them.
COMMON_CONFTEST = "tests/conftest.py"

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<package>[\w.]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]+)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
# Modules are also loaded by their name, and run with `python -m`.
_QUOTED_MODULE = re.compile(r"[\"'](\w+(?:\.\w+)+)")
_SOURCE_FOLDER = re.compile(r"(^|/)src/\w+/")


class NoGitError(Exception):
    """Git cannot say what has changed."""


class Nearness(NamedTuple):
    """How far a test file is from a change: by imports, and among equals by folders."""

    steps: int
    folders: int


@dataclass(frozen=True, slots=True)
class Tree:
    """The Python files of a checkout with what is in them, and who refers to whom.

    `named` are the tests that are named after a module. They are about it, and the others in their
    folder are about the folder.
    """

    texts: Mapping[str, str]
    tests: tuple[str, ...]
    named: frozenset[str]
    referring: Mapping[str, set[str]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The test files to run, the near ones that do not fit, and how long the run should take."""

    chosen: tuple[str, ...]
    left_out: tuple[str, ...]
    seconds: float


def _git(root: Path, *words: str) -> list[str]:
    """The names that git prints with `-z`."""
    command = ["git", "-c", "safe.directory=*", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise NoGitError(str(error)) from error
    if done.returncode != 0:
        raise NoGitError(done.stderr.decode(errors="replace").strip())
    return [name for name in os.fsdecode(done.stdout).split("\0") if name]


def changed_files(root: Path, base: str) -> list[str]:
    """What differs from the base: edited, added, deleted, and what git does not track yet."""
    common = "".join(_git(root, "merge-base", base, "HEAD")).strip()
    edited = _git(root, "diff", "--name-only", "--no-renames", "--relative", "-z", common, "--")
    return sorted({*edited, *_git(root, "ls-files", "-oz", "--exclude-standard")})


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and PurePosixPath(path).match("test_*.py")


def _modules(paths: Iterable[str], roots: Sequence[str]) -> dict[str, str]:
    """The file of each module by its dotted name."""
    deepest_first = sorted(roots, key=len, reverse=True)
    found: dict[str, str] = {}
    for path in paths:
        if path.endswith(".py"):
            root = next((root for root in deepest_first if path.startswith(f"{root}/")), "")
            name = path.removeprefix(f"{root}/").removesuffix(".py").removesuffix("/__init__")
            found[name.replace("/", ".")] = path
    return found


def _imported(text: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The files that a Python file imports, or whose modules it names in its strings."""
    for line in _IMPORT.finditer(text):
        if line["modules"]:
            named = re.findall(r"[\w.]+", line["modules"])
            yield from (modules[name] for name in named if name in modules)
            continue
        for name in re.findall(r"\w+", re.sub(r"#.*", "", line["names"])):
            path = modules.get(f"{line['package']}.{name}") or modules.get(line["package"])
            if path:
                yield path
    yield from (modules[name] for name in _QUOTED_MODULE.findall(text) if name in modules)


def _readers(path: str, texts: Mapping[str, str]) -> set[str]:
    """The Python files that may read or run a file without importing it.

    Those are all that have its name in their text, or the path of its folder. Because tables and
    templates are often found by their folder, the modules next above them count as well.
    """
    place = PurePosixPath(path)
    if place.name == "__init__.py":
        return set()
    whole = f"/{path.lstrip('./')}"
    mention = re.compile(rf"[\w./-]*{re.escape(place.name)}(?![\w-])")
    found = {
        other
        for other, text in texts.items()
        if place.name in text  # which is quick
        if any(whole.endswith(f"/{said.lstrip('./')}") for said in mention.findall(text))
    }
    if place.suffix == ".py":
        return found
    for folder in map(str, place.parents):
        beside = {other for other in texts if other.rpartition("/")[0] == folder}
        if beside and folder != "tests":
            return found | beside
        if "/" in folder:
            found |= {other for other, text in texts.items() if folder in text}
    return found


@cache
def _mirror(folder: str, tests: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The folder of tests that mirrors a folder, and the test files in it.

    `src/operator_sre/gate` has `tests/gate/`, and `docs` has `tests/test_docs.py`; a folder without
    tests of its own has those of the folder above. Nothing mirrors the root.
    """
    mirrored = PurePosixPath(_SOURCE_FOLDER.sub(r"\1", f"{folder}/").removeprefix("tests/"))
    for place in [mirrored, *mirrored.parents]:
        inside, beside = f"tests/{place}", str("tests" / place.parent)
        found = tuple(
            test
            for test in tests
            if place.name
            if (parent := test.rpartition("/")[0]) == inside
            or (parent == beside and test.startswith(f"{beside}/test_{place.name}"))
        )
        if found:
            return inside, found
    return "tests", ()


def _folders_up(home: str, test: str) -> int:
    """How many folders to go up from home until the test lies below."""
    up = 0
    while not test.startswith(f"{home}/"):
        home = home.rpartition("/")[0]
        up += 1
    return up


def _words(path: str) -> tuple[str, ...]:
    """The words of which the name of a file is made, without the `test_` of a test."""
    name = path.removesuffix("/__init__.py").rpartition("/")[2]
    return tuple(name.partition(".")[0].removeprefix("test_").split("_"))


def _namesakes(path: str, tests: tuple[str, ...]) -> set[str]:
    """The test files that are named after a file, in the folder that mirrors its folder."""
    beside = _mirror(path.rpartition("/")[0], tests)[1]
    words = set(_words(path))
    return {test for test in beside if words.issubset(_words(test))}


def read_tree(paths: Iterable[str], texts: Mapping[str, str], roots: Sequence[str]) -> Tree:
    """Find out who refers to whom, among the files that there are and those that were deleted.

    `texts` holds what is in the Python files that there are, and `roots` the folders from which
    modules are imported. A file refers to another when it imports or names it, or is a test that is
    named after it or uses its fixtures.
    """
    paths = sorted(set(paths))
    tests = tuple(filter(_is_test, sorted(texts)))
    modules = _modules(paths, roots)
    referring: dict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        if path != COMMON_CONFTEST:
            for imported in _imported(text, modules):
                referring[imported].add(path)
    named: set[str] = set()
    for path in paths:
        if path.endswith("/conftest.py"):
            below = path.removesuffix("conftest.py")
            referring[path].add(f"fixtures of {path}")  # they lie in between
            referring[f"fixtures of {path}"] = {test for test in tests if test.startswith(below)}
        elif path.endswith(".py") and not path.startswith("tests/"):
            namesakes = _namesakes(path, tests)
            referring[path] |= namesakes
            named |= namesakes
    return Tree(texts, tests, frozenset(named), dict(referring))


def affected(changed: Iterable[str], tree: Tree) -> dict[str, Nearness]:
    """Every test file that the changed files can affect, and how near it is."""
    changed = sorted(set(changed))
    readers = {path: _readers(path, tree.texts) for path in changed}
    steps = dict.fromkeys(changed, 0)
    for path in changed:
        if not path.endswith(".py"):  # a table or a template is a part of the module that reads it
            steps |= {test: 1 for test in readers[path] if _is_test(test) and test not in steps}
            steps |= {other: 0 for other in readers[path] if not _is_test(other)}
    reached = sorted(steps, key=lambda path: steps[path])
    for path in reached:
        for other in tree.referring.get(path, set()) | readers.get(path, set()):
            if other not in steps:
                steps[other] = steps[path] + 1
                reached.append(other)

    def bring_near(test: str, count: int) -> None:
        steps[test] = min(steps.get(test, count), count)

    folders = dict.fromkeys(tree.tests, sys.maxsize)
    for folder in {path.rpartition("/")[0] for path in changed}:
        home, beside = _mirror(folder, tree.tests)
        for test in set(beside) - tree.named:
            bring_near(test, STEPS_MAX)
        for test in tree.tests:
            up = 0 if test in beside else _folders_up(home, test)
            folders[test] = min(folders[test], up)
    for test in READ_EVERYTHING:
        bring_near(test, STEPS_MAX)
    names = {_words(path) for path in changed}
    for test in tree.tests:
        if test in steps and _words(test) in names:
            bring_near(test, 1)
    return {test: Nearness(steps[test], folders[test]) for test in tree.tests if test in steps}


def choose(near: Mapping[str, Nearness], seconds: Mapping[str, float]) -> Choice:
    """Of the near test files, as many as fit the budget; changed ones always."""
    ends = [0.0] * WORKERS
    chosen: list[str] = []
    left_out: list[str] = []
    cost = {test: seconds.get(test, UNKNOWN_S) for test in near}
    for test in sorted(near, key=lambda test: (near[test], cost[test], test)):
        steps = near[test].steps
        if steps > STEPS_MAX:
            break
        end = min(ends) + cost[test] + COLLECT_S
        does_fit = end <= BUDGET_S and (steps == 1 or cost[test] <= LONG_S)
        if steps == 0 or does_fit:
            ends[ends.index(min(ends))] = end
            chosen.append(test)
        else:
            left_out.append(test)
    return Choice(tuple(chosen), tuple(left_out), max(ends))


def _report(
    changed: Sequence[str],
    near: Mapping[str, Nearness],
    seconds: Mapping[str, float],
    choice: Choice,
) -> str:
    """What runs, what does not and why, in a few lines."""
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    far = len(near) - len(choice.chosen) - len(choice.left_out)
    lines = [
        f"changed: {', '.join(changed[:3])}{more}",
        f"running {len(choice.chosen)} of {len(near)} affected test files,"
        f" about {choice.seconds:.0f} s; left out: {len(choice.left_out)} that take too long,"
        f" {far} that are further away. `make test` runs all.",
    ]
    direct = [test for test in choice.left_out if near[test].steps <= 1]
    if direct:
        more = f" and {len(direct) - 5} more" if len(direct) > 5 else ""
        lines.append(f"Left out although they test what has changed: {' '.join(direct[:5])}{more}")
    unknown = len([test for test in choice.left_out if test not in seconds])
    if unknown:
        lines.append(f"{unknown} of those left out were never timed here; `make test` times all.")
    return "\n".join(lines)


def main(words: Sequence[str], root: Path) -> int:
    """Choose, say what was chosen, and run it; the exit code is that of pytest."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="HEAD", help="a commit or branch (default: HEAD)")
    parser.add_argument("--list", action="store_true", help="print the test files, run nothing")
    options, others = parser.parse_known_args(words)
    try:
        changed = changed_files(root, options.base)
        paths = _git(root, "ls-files", "-coz", "--exclude-standard")
    except NoGitError as error:
        sys.stderr.write(f"cannot tell what differs from {options.base!r}: {error}\n")
        sys.stderr.write("Name a commit with BASE=..., or run all tests with `make test`.\n")
        return 2
    if not changed:
        sys.stdout.write(f"Nothing differs from {options.base}: no test runs.\n")
        return 0
    paths = [path for path in paths if (root / path).is_file()]
    texts = {
        path: (root / path).read_text(encoding="utf-8", errors="replace")
        for path in paths
        if path.endswith(".py")
    }
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    try:
        seconds = json.loads((root / DURATIONS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        seconds = {}
    tree = read_tree([*paths, *changed], texts, settings["tool"]["ruff"]["src"])
    near = affected(changed, tree)
    choice = choose(near, seconds)
    if options.list:
        sys.stdout.write("".join(f"{test}\n" for test in choice.chosen))
        return 0
    sys.stdout.write(f"{_report(changed, near, seconds, choice)}\n")
    sys.stdout.flush()
    if not choice.chosen:
        return 0
    spread = ["--workers", str(WORKERS)]
    return subprocess.call(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.durations"),
            *(spread if len(choice.chosen) > 1 else []),
            *others,
            *choice.chosen,
        ],
        cwd=root,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[1]))

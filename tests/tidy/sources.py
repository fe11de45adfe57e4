"""The files of the checkout, as the tidy rules see them."""

import ast
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

__all__ = [
    "PRODUCT",
    "ROOT",
    "Function",
    "Source",
    "aliases",
    "dotted",
    "functions",
    "imports",
    "paths",
    "product",
    "sources",
    "texts",
    "walk",
]

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("evals/src/", "lab/src/", "protocols/src/", "services/", "src/")

# Where there is no git: folders that hold nothing of ours. Folders with a dot go as well.
_FOREIGN = {"__pycache__", "build", "dist", "node_modules"}


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path from the root of the checkout, its text and its syntax tree."""

    path: str
    text: str

    @classmethod
    def of(cls, text: str, path: str = "src/operator_sre/sample.py") -> "Source":
        return cls(path, text)

    @property
    def tree(self) -> ast.Module:
        return _tree(self.text)

    @property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, the module first."""
        return _nodes(self.text)


# One at a time: with all of them in memory, every round of the garbage collector, in every test
# that comes later, looks at millions of nodes.
@lru_cache(maxsize=1)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@lru_cache(maxsize=1)
def _nodes(text: str) -> list[ast.AST]:
    return walk(_tree(text))


def walk(node: ast.AST) -> list[ast.AST]:
    """What `ast.walk` finds, in half of the time: all sources have millions of nodes."""
    found = [node]
    for each in found:
        for name in each._fields:
            value = getattr(each, name, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method, with the name by which a reader finds it."""

    path: str
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def place(self) -> str:
        return f"{self.path}:{self.name}"

    @property
    def lines(self) -> int:
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1


@cache
def paths() -> tuple[str, ...]:
    """Every file that is committed or could be: what git tracks, and what it does not ignore."""
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-coz"]
    try:
        listing = subprocess.run(
            [*command, "--exclude-standard"], capture_output=True, check=True
        ).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return tuple(sorted(_walk()))
    return tuple(sorted({name for name in listing.split("\0") if (ROOT / name).is_file()}))


def _walk() -> Iterator[str]:
    """The same without git, for a checkout that came as an archive."""
    for folder, children, names in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        children[:] = [
            name
            for name in children
            if name not in _FOREIGN and (name == ".ci" or not name.startswith("."))
        ]
        yield from ((here / name).as_posix() for name in names if not name.endswith(".pyc"))


@cache
def texts() -> dict[str, str]:
    """The text of every file that is text."""
    found: dict[str, str] = {}
    for path in paths():
        try:
            found[path] = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


@cache
def sources() -> tuple[Source, ...]:
    """Every Python file of the checkout."""
    return tuple(Source.of(text, path) for path, text in texts().items() if path.endswith(".py"))


@cache
def product() -> tuple[Source, ...]:
    """The Python files that a user runs."""
    return tuple(source for source in sources() if source.path.startswith(PRODUCT))


def functions(source: Source) -> Iterator[Function]:
    """Every function of a file, methods and nested ones too."""

    def below(node: ast.AST, above: tuple[str, ...]) -> Iterator[Function]:
        for child in _statements(node):
            inner = above
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*above, child.name)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Function(source.path, ".".join(inner), child)
            yield from below(child, inner)

    yield from below(source.tree, ())


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right below a node, with handlers and cases, which hold further ones."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, name, ())


def imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import of a file, wherever it is."""
    known: list[ast.AST] = [tree]
    for node in known:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        known.extend(_statements(node))


def aliases(tree: ast.Module) -> dict[str, str]:
    """What the names that a file imports stand for: `{"sleep": "asyncio.sleep"}`."""
    found: dict[str, str] = {}
    for node in imports(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """The full name of `a.b.c`, as imported; empty for anything that is not a plain name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        above = dotted(node.value, names)
        return f"{above}.{node.attr}" if above else ""
    return ""

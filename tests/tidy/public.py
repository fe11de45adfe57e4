"""The public list is written down and tested; a module that nobody uses goes."""

import ast
import re
from collections.abc import Iterable
from functools import cache

from tests.tidy.sources import Source, imports

__all__ = [
    "bad_lists",
    "dead_modules",
    "mentioned_modules",
    "module_name",
    "public_names",
    "untested_names",
]


@cache
def public_names(source: Source) -> list[str] | None:
    """What `__all__` lists; None where a file has none that can be read."""
    for node in source.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.List | ast.Tuple):
                items = [item.value for item in value.elts if isinstance(item, ast.Constant)]
                return [item for item in items if isinstance(item, str)]
    return None


def _defined_names(source: Source) -> set[str]:
    """The names that a file's own top level defines."""
    found: set[str] = set()
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def _bound_names(source: Source) -> set[str]:
    """The names that a file's top level defines or imports."""
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in imports(source.tree)
        for alias in node.names
    }
    return _defined_names(source) | imported


@cache
def bad_lists(source: Source) -> list[str]:
    """What is wrong with a file's `__all__`. Its order is ruff's business (RUF022)."""
    listed = public_names(source)
    if listed is None:
        own = sorted(name for name in _defined_names(source) if not name.startswith("_"))
        return [f"{source.path} has public names and no __all__: {', '.join(own)}"] if own else []
    twice = {name for name in listed if listed.count(name) > 1}
    # A package may hand out names lazily, by a `__getattr__` of its own.
    lazy = "__getattr__" in _defined_names(source)
    missing = set() if lazy else set(listed) - _bound_names(source)
    return [f"{source.path} lists {name!r} twice" for name in sorted(twice)] + [
        f"{source.path} lists {name!r} and does not define it" for name in sorted(missing)
    ]


def untested_names(files: Iterable[Source], tests: Iterable[str]) -> list[str]:
    """Public names that no file of the tests mentions.

    What only the files of its own folder use is the folder's own business: it is tested through
    what the folder hands out. Everything of the protocols is for strangers, and so public.
    """
    known = list(files)
    mentioned = {word for text in tests for word in re.findall(r"\w+", text)}
    outside = _used_outside(known)
    return [
        f"{source.path} makes {name!r} public and no test mentions it"
        for source in known
        for name in public_names(source) or []
        if name not in mentioned
        and (_hands_out(source) or f"{module_name(source.path)}.{name}" in outside)
    ]


def _hands_out(source: Source) -> bool:
    return source.path.endswith("__init__.py") or "operator_protocols" in source.path


def _used_outside(files: Iterable[Source]) -> set[str]:
    """Full names of what is imported from a folder by a file that lies in another.

    The commands of all distributions are one command line.
    """
    used: set[str] = set()
    for source in files:
        name = module_name(source.path)
        folder = name if source.path.endswith("__init__.py") else name.rpartition(".")[0]
        for found in mentioned_modules(source):
            other = found.rpartition(".")[0].rpartition(".")[0]
            if other != folder and not (other.endswith(".cli") and folder.endswith(".cli")):
                used.add(found)
    return used


def module_name(path: str) -> str:
    """`src/operator_sre/gate/__init__.py` -> `operator_sre.gate`."""
    inner = path.rpartition("src/")[2].removesuffix(".py").removesuffix("/__init__")
    return inner.replace("/", ".")


def dead_modules(files: Iterable[Source], entries: Iterable[str]) -> list[str]:
    """Modules that no other module imports or names, and no entry point or `-m` starts."""
    by_name = {module_name(source.path): source for source in files}
    named = " ".join(entries)
    used = {name for name in by_name if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", named)}
    for name, source in by_name.items():
        used |= {found for found in mentioned_modules(source) if found != name}
    alive = {name for name in used if name in by_name}
    alive |= {above for name in used for above in _parents(name)}
    return [
        f"{source.path} is imported by nothing: wire it in or remove it"
        for name, source in by_name.items()
        if name not in alive and not name.endswith(".__main__")
    ]


def _parents(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


@cache
def mentioned_modules(source: Source) -> frozenset[str]:
    """Full names of what a file imports, and of dotted names in its strings (lazy imports)."""
    found: set[str] = set()
    name = module_name(source.path)
    package = name if source.path.endswith("__init__.py") else name.rpartition(".")[0]
    for node in source.nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"\boperator_\w+(?:\.\w+)+", node.value))
    return frozenset(found)

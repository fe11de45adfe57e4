"""Packs: descriptions of common systems, to copy and to edit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.description import Written, add_description

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "BUILT_IN",
    "Pack",
    "PackLine",
    "add_pack",
    "find_packs",
    "list_packs",
    "packs_of",
    "show_pack",
]

BUILT_IN = "built-in"
PACK_BYTES_MAX = 256 * 1024
_SECTIONS = ("probes", "invariants", "causes", "levers")


@dataclass(frozen=True, slots=True)
class PackLine:
    """A pack in a list: what it is for, where it is from, and how much it holds."""

    name: str
    sentence: str
    source: str
    probes: int
    invariants: int
    causes: int
    levers: int


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack with its text, in which `@NAME@` stands for the name of the subject."""

    name: str
    source: str
    text: str

    @property
    def line(self) -> PackLine:
        """How a list shows it."""
        import yaml

        first = self.text.partition("\n")[0].lstrip("# ").strip()
        try:
            found: Any = yaml.safe_load(self.text.replace("@NAME@", self.name))
        except yaml.YAMLError as error:
            raise UsageError(
                f"The pack {self.name!r} of {self.source} is not YAML.",
                next_step="Correct the file, or move it out of the folder.",
            ) from error
        held: Mapping[str, Any] = found if isinstance(found, dict) else {}
        counts = [len(held.get(section) or ()) for section in _SECTIONS]
        return PackLine(self.name, first, self.source, *counts)


def find_packs(folder: str = "") -> Iterator[Pack]:
    """The packs of a folder, or the built-in ones."""
    if not folder:
        inside = files("operator_sre.app") / "descriptions" / "packs"
        for file in sorted(inside.iterdir(), key=lambda file: file.name):
            yield Pack(file.name.removesuffix(".yaml"), BUILT_IN, file.read_text("utf-8"))
        return
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise NotFoundError(
            f"There is no folder {folder[:200]!r}.", next_step="Name a folder with *.yaml files."
        )
    for path in sorted(place.glob("*.yaml")):
        try:
            with path.open("rb") as opened:
                text = opened.read(PACK_BYTES_MAX).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{str(path)!r} cannot be read as a pack.") from error
        yield Pack(path.stem, str(path), text)


def packs_of(app: App, source: str) -> Iterator[Pack]:
    """The built-in packs, those of a folder, or those of a signed bundle whose signer is known."""
    place = Path(source).expanduser()
    if not source or not place.is_file():
        yield from find_packs(source)
        return
    from operator_sre.app.bundles import is_trusted, read_bundle  # it loads cryptography

    bundle = read_bundle(place)
    if not is_trusted(app, bundle):
        raise UsageError(
            f"{str(place)!r} is signed by the key {bundle.key}, which is not known here.",
            next_step=f"If you trust its author: operator install {place} --key {bundle.key}",
        )
    for file in bundle.files:
        path = Path(file.path)
        if path.suffix == ".yaml" and len(file.data) <= PACK_BYTES_MAX:
            try:
                text = file.data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UsageError(f"{file.path!r} of {str(place)!r} is not a text.") from error
            # A project has other files in YAML too.
            if "@NAME@" in text:
                yield Pack(path.stem, f"{place}, signed by {bundle.key[:16]}", text)


def list_packs(app: App, *, folder: str = "") -> list[PackLine]:
    """Every pack there is."""
    return [pack.line for pack in packs_of(app, folder)]


def show_pack(app: App, *, name: str, folder: str = "") -> Pack:
    """One pack. NotFoundError lists those there are."""
    packs = {pack.name: pack for pack in packs_of(app, folder)}
    if name not in packs:
        raise NotFoundError(
            f"There is no pack {name[:60]!r}.", next_step=f"Packs: {', '.join(packs) or 'none'}."
        )
    return packs[name]


def add_pack(app: App, *, name: str, subject: str = "", folder: str = "") -> Written:
    """Copy a pack as the description of a subject, and name it in operator.toml."""
    pack = show_pack(app, name=name, folder=folder)
    chosen = subject or name
    text = pack.text.replace("@NAME@", chosen)
    return add_description(app.config, chosen, text, folder=Path.cwd())

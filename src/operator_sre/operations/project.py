"""A project and the machine that it runs on: `operator init`, `doctor`, `pack` and `install`."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.domain.token import Role
from operator_sre.app.bundles import (
    Bundle,
    Installed,
    Packed,
    damage_error,
    install_bundle,
    is_trusted,
    read_bundle,
)
from operator_sre.app.doctor import CheckState, DoctorFinding, examine
from operator_sre.app.project import Made
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import (
    Effect,
    Local,
    Operation,
    Request,
    Table,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.config import Config

__all__ = ["OPERATIONS", "examine_machine", "install_project", "trust_question"]

Directory = Annotated[Path, Meta(description="The project directory.")]


class InitProject(Request, frozen=True):
    """Where to create it."""

    directory: Directory = Path()


class ExamineMachine(Request, frozen=True):
    """No parameters."""


class PackProject(Request, frozen=True):
    """Which project, and the file to write."""

    directory: Directory = Path()
    output: Annotated[
        Path | None,
        Meta(
            description="The file to write; NAME.operator by default.",
            extra={"option": ("-o", "--output")},
        ),
    ] = None


class InstallProject(Request, frozen=True):
    """Which bundle, where to unpack it, and who must have signed it."""

    bundle: Annotated[Path, Meta(description="A file written by `operator pack`.")]
    to: Annotated[
        Path | None,
        Meta(description="The directory to create; named after the project by default."),
    ] = None
    key: Annotated[str, Meta(max_length=1000, description="Require a signature by this key.")] = ""


@dataclass(frozen=True, slots=True)
class ProjectDocument:
    """What was created and what existed."""

    project: Made
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class MachineDocument:
    """Whether this machine can run Operator, and every finding."""

    healthy: bool
    findings: tuple[DoctorFinding, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class PackedDocument:
    """The bundle that was written."""

    packed: Packed
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class InstalledDocument:
    """The project that was installed."""

    installed: Installed
    schema_version: str = SCHEMA_VERSION


def examine_machine(config: Config) -> MachineDocument:
    """Everything that was found, and whether none of it is a failure."""
    findings = tuple(examine(config))
    failed = any(finding.state is CheckState.FAILED for finding in findings)
    return MachineDocument(not failed, findings)


def _question_about(app: App, bundle: Bundle, key: str) -> str:
    if is_trusted(app, bundle, key):
        return ""
    return f"{bundle.name!r} is signed by {bundle.key}, a key that is new here. Trust it?"


def trust_question(app: App, *, bundle: Path, to: Path | None, key: str) -> str:
    """What a person agrees to the first time that a key appears."""
    return _question_about(app, read_bundle(bundle), key)


def install_project(
    app: App, *, bundle: Path, to: Path | None, key: str, agreed: str
) -> Awaitable[Installed]:
    """Unpack a bundle that is trusted, or whose key a person has just agreed to."""
    found = read_bundle(bundle)
    if _question_about(app, found, key) not in ("", agreed):
        raise damage_error("it changed while you were asked")
    return install_bundle(app, found, to or Path.cwd() / found.name)


def _made_view(found: ProjectDocument, now: datetime) -> View:
    made = found.project
    return [
        *(f"wrote   {made.folder}/{name}" for name in made.written),
        *(f"kept    {made.folder}/{name} as it was" for name in made.kept),
        "next    describe your system in subjects/example.yaml, and check it:",
        "        operator subjects test subjects/example.yaml",
        "        then remove the comment marks in operator.toml, and check the project:",
        "        operator validate",
    ]


def _machine_view(found: MachineDocument, now: datetime) -> View:
    rows = [(check.state, check.name, check.found) for check in found.findings]
    fixes = [
        f"  {check.name}: {check.fix}"
        for check in found.findings
        if check.fix and check.state is not CheckState.NOTE
    ]
    steps = ["", "What to do:", *fixes] if fixes else []
    return [Table(("", "what", "found"), rows), *steps]


def _packed_view(found: PackedDocument, now: datetime) -> View:
    packed = found.packed
    return [
        f"packed  {packed.file}: {packed.files} files, {packed.bytes} bytes",
        f"sha256  {packed.sha256}",
        f"key     {packed.key}",
        "next    send the key to the installer by another channel than the file:",
        f"        operator install {Path(packed.file).name} --key {packed.key}",
    ]


def _installed_view(found: InstalledDocument, now: datetime) -> View:
    done = found.installed
    return [
        f"installed  {done.name} in {done.folder}: {done.files} files",
        f"next       operator validate {done.folder}",
    ]


OPERATIONS = (
    Operation(
        name="init",
        help="Create a project: settings, a policy and a first subject. Overwrites nothing.",
        request=InitProject,
        result=ProjectDocument,
        call="operator_sre.app.project.init_project",
        view=_made_view,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("directory",),
        opens="nothing",
        local=Local.FILES,
    ),
    Operation(
        name="doctor",
        help="Check that this machine can run Operator. Exit 1 if a check fails.\n\n"
        "Each problem is listed with its fix. Optional parts that are missing are notes. The"
        " command changes nothing.",
        request=ExamineMachine,
        result=MachineDocument,
        call="operator_sre.operations.project.examine_machine",
        view=_machine_view,
        opens="settings",
        local=Local.MACHINE,
        waiting="checking this machine",
        exit_code=lambda found: 0 if found.healthy else 1,
    ),
    Operation(
        name="pack",
        help="Pack a project into one signed file. Refuses if it contains secrets.\n\n"
        "The same directory always produces the same bytes. If a secret is found, pack names its"
        " file, line and kind and writes nothing.",
        request=PackProject,
        result=PackedDocument,
        call="operator_sre.app.bundles.pack_project",
        view=_packed_view,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("directory",),
        local=Local.FILES,
        waiting="packing",
    ),
    Operation(
        name="install",
        help="Verify a packed project and unpack it into a new directory.\n\n"
        "You confirm a signing key the first time it appears. With --key, the project must be"
        " signed by that key.",
        request=InstallProject,
        result=InstalledDocument,
        call="operator_sre.operations.project.install_project",
        question="operator_sre.operations.project.trust_question",
        view=_installed_view,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("bundle",),
        local=Local.FILES,
        waiting="installing",
    ),
)

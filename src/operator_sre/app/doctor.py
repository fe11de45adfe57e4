"""Whether this machine is fit: quick, changing nothing, each finding with a fix."""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

from operator_protocols.errors import OperatorError
from operator_protocols.installation import how_to_add_extra
from operator_sre.config import Config

__all__ = ["EXAMINATIONS", "CheckState", "DoctorFinding", "examine", "extras", "missing_of"]

PYTHON_MIN = (3, 11)
DISK_FAILED_BYTES, DISK_WARNING_BYTES = 200 * 1024 * 1024, 2 * 1024 * 1024 * 1024
CLOCK_STEP_S, CLOCK_DRIFT_S_MAX = 0.05, 0.02
# Before this moment no release of this program existed, so that a clock which says so is wrong.
EARLIEST_S = 1_750_000_000
ENOUGH_FILES = 1024
# What each extra is for.
PURPOSES = {
    "agent": "remote models",
    "alerts": "alerts from other systems",
    "amqp": "probes of RabbitMQ",
    "aws": "AWS: instances, volumes and groups",
    "cluster": "workers on several machines",
    "demo": "operator demo",
    "evals": "evaluation campaigns",
    "grpc": "probes of the health of gRPC servers",
    "kafka": "probes of Kafka",
    "kubernetes": "Kubernetes clusters",
    "lab": "disposable systems for fault injection",
    "mcp": "agents over MCP",
    "mysql": "probes of MySQL and MariaDB",
    "notify": "notifications",
    "postgres": "PostgreSQL, as a subject and as the store",
    "s3": "probes of object stores",
    "secrets": "secrets in the system keyring",
    "ssh": "commands on hosts over ssh",
    "telemetry": "traces",
    "tui": "the terminal console",
    "web": "the HTTP API and the web console",
}
CORE = "operator-sre"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?.*?extra *== *['\"]([^'\"]+)['\"]")
_SYNCHRONISED = Path("/run/systemd/timesync/synchronized")


class CheckState(StrEnum):
    """How one thing is: fine, worth a word, or in the way."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check; `fix` is a command or a step unless it passed."""

    name: str
    state: CheckState
    found: str
    fix: str = ""


def examine(config: Config) -> list[DoctorFinding]:
    """All results, in the order of the checks."""
    return [finding for look in EXAMINATIONS for finding in look(config)]


def examine_programs(config: Config) -> Iterator[DoctorFinding]:
    """The Python, and every extra: installed, not needed, or missing for what the settings say."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_MIN:
        fix = "Install Python 3.11 or newer, and Operator into it."
        yield DoctorFinding("python", CheckState.FAILED, found, fix)
    else:
        yield DoctorFinding("python", CheckState.OK, found)
    needed, model = {}, str(config.values["model"])
    if config.triggers:
        needed["alerts"] = "operator.toml has triggers"
    if config.notices != type(config.notices)():
        needed["notify"] = "operator.toml has notices"
    if config.values["secrets_in"] == "keyring":
        needed["secrets"] = "secrets_in is 'keyring'"
    if any(subject.plugin == "postgres" for subject in config.subjects):
        needed["postgres"] = "a subject is PostgreSQL"
    targets = [target for subject in config.subjects for target in subject.targets]
    if any(target.runs_at.startswith("ssh:") for target in targets):
        needed["ssh"] = "a target is reached over ssh"
    if any(configured.name == model for configured in config.models):
        needed["agent"] = f"the model is {model!r}"
    for extra in extras():
        purpose = f", for {PURPOSES[extra]}" if extra in PURPOSES else ""
        missing = missing_of(extra)
        if not missing:
            yield DoctorFinding(f"extra {extra}", CheckState.OK, f"installed{purpose}")
            continue
        state = CheckState.FAILED if extra in needed else CheckState.NOTE
        why = f"not installed ({', '.join(missing)})"
        why = f"{why}, and {needed[extra]}" if extra in needed else why
        fix = how_to_add_extra(extra)
        yield DoctorFinding(f"extra {extra}", state, f"{why}{purpose}", fix)


def extras() -> Sequence[str]:
    """Every extra of this distribution; none where it runs without being installed."""
    try:
        return sorted(distribution(CORE).metadata.get_all("Provides-Extra") or ())
    except PackageNotFoundError:
        return ()


def missing_of(extra: str) -> Sequence[str]:
    """The distributions of an extra that are not installed."""
    missing: list[str] = []
    for requirement in distribution(CORE).requires or ():
        found = _REQUIREMENT.match(requirement)
        if found is None or found[3] != extra:
            continue
        name, inner = found[1], found[2] or ""
        if name == CORE:
            missing += [each for other in inner.split(",") for each in missing_of(other.strip())]
            continue
        try:
            distribution(name)
        except PackageNotFoundError:
            missing.append(name)
    return missing


def examine_boxes(config: Config) -> Iterator[DoctorFinding]:
    """What holds a command to its verdict, and what a script runs in: the kernel, a box, Docker."""
    from operator_sre.app.project import docker_problem
    from operator_sre.enforcement import enforced_here, why_not_confined
    from operator_sre.executor.box import why_no_box
    from operator_sre.executor.sandbox.bubblewrap import bwrap

    why = why_not_confined()
    if why and not why_no_box():
        found = f"files and network by bubblewrap; everything else is judged only: {why}"
        yield DoctorFinding("confinement", CheckState.NOTE, found, "Use Linux 5.13 or newer.")
    elif why:
        fix = "Use Linux 5.13 or newer, or require approval: `approval: {unenforced: require}`."
        yield DoctorFinding("confinement", CheckState.WARNING, f"judged, not enforced: {why}", fix)
    else:
        yield DoctorFinding("confinement", CheckState.OK, ", ".join(enforced_here()))
    in_docker = config.values["sandbox"] == "docker"
    path = bwrap()
    if in_docker:
        pass  # what Docker says counts
    elif not path:
        fix = "apt-get install bubblewrap"
        yield DoctorFinding(
            "sandbox", CheckState.WARNING, "bubblewrap is not installed: scripts cannot run", fix
        )
    elif why := _why_no_namespaces():
        fix = "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"
        yield DoctorFinding("sandbox", CheckState.WARNING, f"{path}, but {why}", fix)
    else:
        yield DoctorFinding("sandbox", CheckState.OK, path)
    targets = [target for subject in config.subjects for target in subject.targets]
    needed = in_docker or any(target.runs_at.startswith("docker:") for target in targets)
    problem = docker_problem()
    if problem is None:
        yield DoctorFinding("docker", CheckState.OK, "it answers")
        return
    state = CheckState.FAILED if needed else CheckState.NOTE
    why = problem.message if needed else f"{problem.message} No setting requires Docker."
    yield DoctorFinding("docker", state, why, "systemctl start docker")


def _why_no_namespaces() -> str:
    """Why the kernel refuses user namespaces, if it reports a reason."""
    for name in ("kernel/unprivileged_userns_clone", "user/max_user_namespaces"):
        try:
            text = (Path("/proc/sys") / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text == "0" and os.geteuid() != 0:
            return f"{name.replace('/', '.')} is 0"
    return ""


def examine_machine(config: Config) -> Iterator[DoctorFinding]:
    """The disk of the home, the clock, the address we would listen at, and the limit of files."""
    there = next(folder for folder in (config.home, *config.home.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    found = f"{free / 1024**3:.1f} GiB free for {str(config.home)!r}"
    if free < DISK_WARNING_BYTES:
        state = CheckState.FAILED if free < DISK_FAILED_BYTES else CheckState.WARNING
        fix = "Free disk space, move the home with --home DIR, or run: operator store purge"
        yield DoctorFinding("disk", state, found, fix)
    else:
        yield DoctorFinding("disk", CheckState.OK, found)
    if there == config.home and not os.access(there, os.W_OK | os.X_OK):
        fix = f"chown -R $(id -u) {config.home}"
        yield DoctorFinding("home", CheckState.FAILED, f"{str(there)!r} cannot be written", fix)
    fix = "timedatectl set-ntp true"
    wall, steady = time.time(), time.monotonic()
    time.sleep(CLOCK_STEP_S)
    drift = abs((time.time() - wall) - (time.monotonic() - steady))
    if wall < EARLIEST_S:
        yield DoctorFinding("clock", CheckState.FAILED, "the clock is years behind", fix)
    elif drift > CLOCK_DRIFT_S_MAX:
        found = f"the clock was changed by {drift * 1000:.0f} ms during the check"
        yield DoctorFinding("clock", CheckState.WARNING, found, fix)
    elif _SYNCHRONISED.exists():
        yield DoctorFinding("clock", CheckState.OK, "synchronised by systemd-timesyncd")
    else:
        found = "the clock is steady; its synchronisation cannot be checked here"
        yield DoctorFinding("clock", CheckState.OK, found)
    address = str(config.values["metrics"])
    if not address:
        yield DoctorFinding("ports", CheckState.OK, "no setting uses one")
    else:
        host, _, port = address.rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host.strip("[]"), int(port)))
                yield DoctorFinding("ports", CheckState.OK, f"metrics at {address} is free")
            except OSError as error:
                fix = f"ss -ltnp 'sport = :{port}'"
                found = (
                    f"metrics at {address}: {error.strerror}; another Operator process may use it"
                )
                yield DoctorFinding("ports", CheckState.WARNING, found, fix)
    # Each target takes some open files.
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < ENOUGH_FILES:
        found = f"{soft} open files allowed"
        yield DoctorFinding("files", CheckState.WARNING, found, f"ulimit -n {ENOUGH_FILES}")


def examine_keys(config: Config) -> Iterator[DoctorFinding]:
    """Whether keys and secrets are private, and whether each secret is bound."""
    from operator_sre.app.secret_store import open_secrets

    box = open_secrets(config)
    private = {
        "ledger key": config.ledger_key,
        "redaction key": config.home / "redaction.key",
        "vault key": config.home / "vault.key",
        "secrets": box.path,
        "secrets key": box.key,
    }
    for name, path in private.items():
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            found = f"{str(path)!r} is readable by other users (mode {mode:o})"
            yield DoctorFinding(name, CheckState.FAILED, found, f"chmod 600 {path}")
        else:
            yield DoctorFinding(name, CheckState.OK, f"readable by its owner only: {str(path)!r}")
    try:
        known = box.all()
    except OperatorError as error:
        yield DoctorFinding("secrets", CheckState.FAILED, error.message, error.next_step)
        return
    for secret in known.values():
        if not secret.holders:
            fix = f"operator secrets bind {secret.name} --to ..., or remove it"
            found = f"{secret.name!r} is not bound"
            yield DoctorFinding("secrets", CheckState.NOTE, found, fix)


def examine_model(config: Config) -> Iterator[DoctorFinding]:
    """Whether the configured model can work."""
    from operator_sre.app.models import is_offline, key_state, thinking_model

    try:
        name = thinking_model(config)
    except OperatorError as error:
        yield DoctorFinding("model", CheckState.FAILED, error.message, error.next_step)
        return
    if is_offline(name):
        yield DoctorFinding("model", CheckState.OK, f"{name}, which needs no key")
    elif key_state(config, name) == "not set":
        fix = f"operator secrets set {name}-key; operator secrets bind {name}-key --to model:{name}"
        found = f"{name}: its key is not set, so the reasoner replaces it"
        yield DoctorFinding("model", CheckState.WARNING, found, fix)
    else:
        yield DoctorFinding("model", CheckState.OK, f"{name} thinks")


def examine_store(config: Config) -> Iterator[DoctorFinding]:
    """Whether the database can be read; it is opened for reading, and nothing is made."""
    place = config.store
    if not isinstance(place, Path):
        from operator_sre.app.project import why_unreached

        parts = urlsplit(place)
        host, port = parts.hostname or "localhost", parts.port or 5432
        if why := why_unreached(f"{host}:{port}"):
            found = f"cannot connect to {host}:{port}: {why}"
            fix = f"pg_isready -h {host} -p {port}"
            yield DoctorFinding("store", CheckState.FAILED, found, fix)
        else:
            yield DoctorFinding("store", CheckState.OK, f"a server listens at {host}:{port}")
        return
    if not place.exists():
        yield DoctorFinding(
            "store", CheckState.OK, "does not exist yet; the first command creates it"
        )
        return
    fix = "operator store check"
    try:
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True, timeout=1)) as database:
            (count,) = database.execute("SELECT coalesce(max(seq), 0) FROM entries").fetchone()
            (pages,) = database.execute("PRAGMA page_count").fetchone()
            (size,) = database.execute("PRAGMA page_size").fetchone()
    except sqlite3.Error as error:
        yield DoctorFinding("store", CheckState.FAILED, f"{str(place)!r}: {error}", fix)
        return
    actual = place.stat().st_size
    if actual and actual < size:
        yield DoctorFinding("store", CheckState.FAILED, f"{str(place)!r} is truncated", fix)
        return
    found = f"{count} entries, {pages * size / 1024**2:.1f} MiB"
    yield DoctorFinding("store", CheckState.OK, found)


# In the order of the output.
EXAMINATIONS: tuple[Callable[[Config], Iterator[DoctorFinding]], ...] = (
    examine_programs,
    examine_boxes,
    examine_machine,
    examine_keys,
    examine_model,
    examine_store,
)

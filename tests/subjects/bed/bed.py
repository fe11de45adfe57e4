"""The bed as somebody operates it: their description, their levers, and `operator up` beside it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from operator_evals.app.generated_trial import claims_in
from operator_evals.generated.observed import Claim
from operator_lab.ports import reserve_ports
from operator_lab.rig import Rig
from operator_protocols.domain.health import Health
from operator_protocols.domain.ticket import TicketState
from operator_sre.app.reports.timeline import read_actions
from operator_sre.app.wiring import App, look_at_app
from operator_sre.config import Config, load_config
from tests.e2e.waiting import eventually
from tests.processes.runners import end_runner
from tests.subjects.bed.box import Box, box_in
from tests.subjects.bed.plugin import text_of
from tests.subjects.bed.programs import ROOT
from tests.subjects.bed.rig import bed_rig
from tests.subjects.certificates import certificate

__all__ = ["PID_FILES", "Bed", "Seen", "bed_in"]

INTERVAL_S = 1.5
STABLE_S = 3.0
HEALTHY_S_MAX = 180.0
ENTRIES_MAX = 5_000
PID_FILES = {
    "edge": "nginx.pid",
    "db": "mariadb.pid",
    "ledger": "postgres.pid",
    "cache": "cache.pid",
    "shop": "app.pid",
    "pay": "app.pid",
}
# A repaired ticket that was flapping is watched until it has held for ten minutes.
ENDED = (TicketState.ESCALATED, TicketState.RESOLVED, TicketState.CLOSED, TicketState.WATCHED)
TLS_INVARIANTS = """
  certificate_is_valid:
    on: tls
    holds: "!has(certificate.certificate_days) || certificate.certificate_days > 14"
    says: "its certificate is valid for {certificate.certificate_days} days"
  tls_answers:
    on: tls
    holds: certificate.ok
    says: "TLS fails: {certificate.error}"
"""
BOX_INVARIANTS = """
  worker_runs:
    on: worker
    holds: worker.alive
    severity: critical
    says: the worker does not run
  result_is_fresh:
    on: job
    holds: "!has(result.age_s) || result.age_s < 3600"
    says: "the result of the nightly job is {result.age_s} s old"
    causes: [job_late]
  box_has_room:
    on: host
    holds: disk.used_percent < 90
    severity: critical
    says: "{disk.mounted_at} is {disk.used_percent} % full"
    causes: [disk_nearly_full]
  log_is_quiet:
    on: job
    holds: "!has(log.matched) || !log.matched"
    says: its log is full of errors
    causes: [log_errors]
"""
CAUSES = """
  job_late: {says: the job has not run in time, on: job, shows: result.age_s >= 3600}
  disk_nearly_full: {says: a disk is nearly full, on: host, shows: disk.used_percent >= 90}
  log_errors: {says: the application writes many errors to its log, on: job, shows: log.matched}
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the product reported so far: its tickets, and each change with its target."""

    claims: tuple[Claim, ...]
    states: tuple[TicketState, ...]
    commands: tuple[tuple[str, str], ...]


@dataclass
class Bed:
    """Everything that is up, and the files of the user who watches it."""

    folder: Path
    rig: Rig
    box: Box
    config: Config
    certificate: Path
    tasks: list[contextlib.AsyncExitStack] = field(default_factory=list)

    def home_of(self, part: str) -> Path:
        """The folder with the settings of a part."""
        return self.rig.layout().home(part)

    def port(self, part: str) -> int:
        """Where a part is reached."""
        return self.rig.manifest().public_port(part)

    def see(self, app: App) -> Seen:
        """What is in its records now."""
        tickets = app.store.tickets.find()
        entries = app.store.entries.after(0, limit=ENTRIES_MAX)
        begun = [
            each for each in read_actions(entries) if each.changes and each.exit_code is not None
        ]
        ran = tuple((each.command, each.target) for each in begun)
        return Seen(claims_in(app), tuple(ticket.state for ticket in tickets), ran)

    def processes(self) -> Mapping[str, int]:
        """The pid of each part that runs."""
        return {
            each.name: each.process.pid
            for each in self.rig.status().processes
            if each.process is not None and each.state.value == "running"
        }


def _describe_services(rig: Rig, tls: int, trusted: Path) -> str:
    """The file that the user would write about the services, with the addresses of this bed."""
    layout = rig.layout()
    lines = ["targets:"]
    for target in rig.targets():
        home = layout.home(target.name)
        log = home / "error.log" if target.name in ("edge", "db") else Path(target.log)
        words = [f"kind: {target.kind}", f"port: {target.port}", f"log: {log}"]
        words += [f"pid_file: {home / PID_FILES[target.name]}"]
        words += [f"depends_on: [{', '.join(target.depends_on)}]"] * bool(target.depends_on)
        if target.kind not in ("web", "nginx"):
            words += [f"data_dir: {target.data_dir}"]
        if target.access is not None:
            user = f"user: {target.access.user}, " if target.access.user else ""
            words += [f"access: {{{user}password_file: {target.access.password_file}}}"]
        lines.append(f"  {target.name}: {{{', '.join(words)}}}")
    access = f"access: {{tls: true, ca_file: {trusted}, server_name: shop.test}}"
    lines.append(f"  door: {{kind: tls, port: {tls}, depends_on: [edge], {access}}}")
    start = f"[{sys.executable}, -P, -m, tests.subjects.bed.start, {rig.directory}, '{{target}}']"
    services = "[web, nginx, mariadb, postgres, redis]"
    levers = f"""
levers:
  start:
    says: Start the service
    on: {services}
    command: {start}
    directory: {ROOT}
    passes: [PYTHONPATH]
    risk: low
    repairs: [process_dead]
  restart:
    says: Restart the service
    on: {services}
    command: {start}
    directory: {ROOT}
    passes: [PYTHONPATH]
    risk: medium
    repairs: [process_hung, memory_leak]
  resume:
    says: Let the process go on
    on: {services}
    command: [sh, {rig.directory.parent}/resume.sh, '{{target}}']
    risk: low
    repairs: [process_paused]
"""
    text = text_of(targets="\n".join(lines), invariants=TLS_INVARIANTS, levers=levers)
    probe = "probes:\n  certificate: {on: tls, certificate: {name: shop.test}}\n"
    return text.replace("probes:\n", probe, 1)


def _describe_box(box: Box) -> str:
    """The file that the user would write about the host over ssh."""
    place = f"runs_at: {box.address}"
    return f"""name: bed
targets:
  worker: {{kind: worker, {place}, pid_file: {box.folder}/worker.pid, log: {box.folder}/worker.log}}
  nightly: {{kind: job, {place}}}
  box: {{kind: host, {place}}}
probes:
  worker: {{on: worker, process: {{pid_file: {box.folder}/worker.pid}}}}
  result: {{on: job, file: {{path: {box.folder}/result}}}}
  log: {{on: job, file: {{path: {box.folder}/app.log, matches: 'ERROR.*ERROR.*ERROR'}}}}
  disk: {{on: host, disk: {{path: {box.disk}}}}}
invariants:{BOX_INVARIANTS}
causes:{CAUSES}
levers:
  start_worker:
    says: Start the worker
    on: worker
    command: [sh, {box.folder}/worker.sh]
    risk: low
    repairs: [process_dead]
"""


RESUME = """\
case $1 in
{cases}
esac
"""


@contextlib.asynccontextmanager
async def bed_in(folder: Path, *, has_box: bool) -> AsyncIterator[tuple[Bed, App]]:
    """A bed that is up and watched by a real `operator up`, which has found it healthy.

    Either the services are watched or the host over ssh, so that an observation stays short.
    """
    home = folder / "home"
    with contextlib.ExitStack() as kept:
        box = kept.enter_context(box_in(folder / "box"))
        rig = await Rig.up(bed_rig(), folder / "rig", owned=True)
        try:
            pem = certificate(folder, name="shop.test", days=90)
            tls = kept.enter_context(reserve_ports(["tls"])).ports["tls"]
            _serve_tls(rig, pem, tls)
            layout = rig.layout()
            cases = [
                f"{name}) kill -CONT $(cat {layout.home(name) / file});;"
                for name, file in PID_FILES.items()
            ]
            (folder / "resume.sh").write_text(RESUME.format(cases="\n".join(cases)))
            trusted = folder / "trusted.pem"
            text = _describe_box(box) if has_box else _describe_services(rig, tls, trusted)
            (folder / "bed.yaml").write_text(text)
            (folder / "trusted.pem").write_bytes(pem.read_bytes())
            (folder / "operator.toml").write_text(
                '[subjects.bed]\nplugin = "declarative"\noptions = { file = "bed.yaml" }\n'
            )
            box.write_home(folder / "user")
            flags = {"home": str(home), "interval_s": f"{INTERVAL_S}"}
            config = load_config(flags=flags, environ={}, cwd=folder)
            kept.callback(end_runner, home / "runner")
            process = kept.enter_context(_operator(folder, home))
            kept.callback(_stop, process)
            bed = Bed(folder, rig, box, config, pem)
            eventually(lambda: (home / "operator.db").exists() or None, "Operator has started")
            with look_at_app(config) as app:
                _await_health(app, process, folder)
                yield bed, app
        finally:
            await rig.down()


def _operator(folder: Path, home: Path) -> subprocess.Popen[bytes]:
    environ = {
        **os.environ,
        "HOME": str(folder / "user"),
        "OPERATOR_HOME": str(home),
        "OPERATOR_STABLE_S": f"{STABLE_S:g}",
        "OPERATOR_APPROVAL_S": "5",
        "OPERATOR_TIMEOUT_S": "12",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    with (folder / "operator.log").open("wb") as log:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "operator_sre", "--mode", "execute", "up", "--all"),
                *("--interval-s", f"{INTERVAL_S:g}"),
            ],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


def _await_health(app: App, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Two observations in which every invariant held, since some need a first one."""

    def is_healthy() -> bool | None:
        assert process.poll() is None, (folder / "operator.log").read_text()[-2000:]
        found = app.store.conditions.of("bed")
        seen = app.store.observations.newest("bed", limit=2)
        all_well = all(each.health is Health.HEALTHY for each in found)
        return (len(seen) > 1 and bool(found) and all_well) or None

    eventually(is_healthy, "the bed is healthy", within_s=HEALTHY_S_MAX)


def _serve_tls(rig: Rig, pem: Path, port: int) -> None:
    """Let nginx serve TLS as well."""
    import signal

    file = rig.layout().home("edge") / "nginx.conf"
    copy = file.with_name("shop.pem")
    copy.write_bytes(pem.read_bytes())
    block = (
        f"    server {{\n        listen 127.0.0.1:{port} ssl;\n"
        f"        ssl_certificate {copy};\n        ssl_certificate_key {copy};\n"
        "        location / {\n            return 200 open;\n        }\n    }\n}\n"
    )
    text = file.read_text().rstrip().removesuffix("}")
    file.write_text(text + block)
    rig.signal("edge", signal.SIGHUP)

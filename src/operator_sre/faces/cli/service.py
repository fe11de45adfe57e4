"""`operator service`: every part in one process, and the unit that starts it with the machine."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operator_protocols.errors import ConfigError, OperatorError, UsageError
from operator_sre.faces.cli.consent import (
    ConfirmationOption,
    ProposeOption,
    YesOption,
    cross_boundary,
)
from operator_sre.faces.cli.options import JsonOption, config_at, config_of
from operator_sre.faces.cli.output import print_json, print_lines
from operator_sre.faces.cli.signals import run_until_stopped

if TYPE_CHECKING:
    from operator_sre.app.confirmations import Asked
    from operator_sre.app.listeners import Listener
    from operator_sre.app.parts import Parts, Start
    from operator_sre.app.systemd import Manager
    from operator_sre.app.wiring import App
    from operator_sre.config import Config

__all__ = ["app"]

app = typer.Typer(help="Run every part in one process, as a service.", no_args_is_help=True)
# A process keeps these for its life.
_FIXED = ("home", "store", "ledger_key", "secrets_in", "secrets_key")
_PURPOSES = {
    "api": "the API",
    "web": "the web console",
    "mcp": "the MCP server",
    "alerts": "the alert receiver",
}
BEATS_PER_WATCHDOG = 3
log = logging.getLogger(__name__)


@app.command()
def run(
    context: typer.Context,
    yes: YesOption = False,
    propose: ProposeOption = False,
    confirmation: ConfirmationOption = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the states of the parts, a document on a line.")
    ] = False,
) -> None:
    """Run the parts that [service] in operator.toml names, until stopped.

    A part that fails starts again, and the others go on. SIGHUP reads the settings again.
    """
    from operator_sre.app.parts import Parts, sole_service
    from operator_sre.app.systemd import manager_of
    from operator_sre.app.wiring import open_app
    from operator_sre.clock import SystemClock

    config = config_of(context)
    with sole_service(config.home):
        with open_app(config) as home:  # a broken store is an error now, not of each part
            for change in _exposures(config):
                cross_boundary(
                    home, change, yes=yes, propose=propose, as_json=as_json, given=confirmation
                )
        manager = manager_of(os.environ, pid=os.getpid())
        _send_log(config)
        service = _Service(
            config, manager, Parts(config.home, SystemClock()), partial(_reread, context), as_json
        )
        run_until_stopped(service.run(), reload=service.reload)


@app.command()
def install(
    context: typer.Context,
    system: Annotated[
        bool, typer.Option("--system", help="Write a unit of the machine; needs root and --user.")
    ] = False,
    user: Annotated[str, typer.Option(help="With --system: the account that it runs as.")] = "",
    writable: Annotated[
        list[Path] | None,
        typer.Option(help="A directory that commands may change; may be repeated."),
    ] = None,
    shown: Annotated[bool, typer.Option("--print", help="Print the unit; write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a hardened systemd unit that runs the service of the project in this directory."""
    from operator_sre.app.systemd import UNIT, unit_text

    config = config_of(context)
    if system is not bool(user):
        raise UsageError("--system and --user must be used together.", next_step="Name an account.")
    if user == "root":
        raise UsageError(
            "The service must not run as root.",
            next_step="Create an account: useradd --system --create-home operator-sre",
        )
    if system and config.home.is_relative_to(Path.home()):
        raise UsageError(
            f"The home {str(config.home)!r} belongs to the account that runs this command.",
            next_step=f'Name one of {user}, in operator.toml: home = "/var/lib/operator-sre"',
        )
    text = unit_text(
        program=_program(),
        folder=(config.file.parent if config.file else Path.cwd()).absolute(),
        home=config.home,
        user=user,
        writable=tuple(path.absolute() for path in writable or ()),
    )
    if shown and as_json:
        print_json({"unit": {"file": None, "text": text}})
        return
    if shown:
        print_lines(text.splitlines())
        return
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    file = (Path("/etc/systemd/system") if system else own) / UNIT
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OperatorError(
            f"{str(file)!r} cannot be written: {error.strerror}.",
            next_step="Use --print, and put the unit there yourself.",
        ) from error
    if as_json:
        print_json({"unit": {"file": str(file), "text": text}})
        return
    manager = "systemctl" if system else "systemctl --user"
    print_lines(
        [
            f"wrote {file}",
            "Start it now and with the machine:" if system else "Start it now and at login:",
            f"  {manager} daemon-reload",
            f"  {manager} enable --now {UNIT}",
            *([] if system else ["  loginctl enable-linger   # also after you log out"]),
        ]
    )


def _program() -> Path:
    """The command that people typed, as a path that stays."""
    typed = Path(sys.argv[0])
    found = shutil.which("operator") if typed.name != "operator" else str(typed)
    if not found:
        raise UsageError(
            "The command 'operator' is not in PATH.", next_step="Install it; see docs/install.md."
        )
    return Path(found).absolute()


@dataclass(slots=True)
class _Service:
    """One process with its settings, its manager and its parts."""

    config: Config
    manager: Manager
    parts: Parts
    reread: Callable[[], Config]
    as_json: bool
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Run until cancelled, and keep the service manager informed."""
        self.parts.changed = self._report
        work = [self.parts.run(_starts(self.config)), self._follow_reloads()]
        if self.manager.watchdog_s:
            work.append(self._beat())
        try:
            async with asyncio.TaskGroup() as group:
                for each in work:
                    group.create_task(each)
        finally:
            self.manager.report(STOPPING=1)

    def reload(self) -> None:
        """Read the settings again soon; called by a signal, in the loop."""
        self._wanted.set()

    async def _beat(self) -> None:
        """Show that this process is not stuck: a stuck one is killed and started again."""
        while True:
            self.manager.report(WATCHDOG=1)
            await asyncio.sleep(self.manager.watchdog_s / BEATS_PER_WATCHDOG)

    async def _follow_reloads(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self.manager.reloading()
            try:
                fresh = await asyncio.to_thread(self.reread)
                must_be_reloadable(self.config, fresh)
                _send_log(fresh)
                if fresh != self.config:
                    self.config = fresh
                    log.info("the settings have changed; all parts start again with them")
                    await self.parts.replace(_starts(fresh))
                else:
                    log.info("the settings are as they were")
            except (OperatorError, OSError) as error:  # such as a directory that is gone
                with suppress(OperatorError):  # then the log stays on stderr
                    _send_log(self.config)
                log.error("the previous settings stay in force: %s", error)
            self._report()

    def _report(self) -> None:
        """Say that all is up again once every part has started, or has failed to."""
        parts = self.parts.parts.values()
        if self.parts.settled:
            self.manager.ready(", ".join(f"{part.name} {part.state}" for part in parts))
            if self.as_json:
                print_json({"parts": {part.name: part.state for part in parts}}, line=True)


def must_be_reloadable(before: Config, after: Config) -> None:
    """ConfigError when new settings need a restart, or a person."""
    fixed = [name for name in _FIXED if before.values[name] != after.values[name]]
    if fixed:
        raise ConfigError(
            f"{', '.join(fixed)} cannot change while the service runs.",
            next_step="Restart the service.",
        )
    known = _exposures(before)
    if any(change not in known for change in _exposures(after)):
        raise ConfigError(
            "A listener would become reachable from other machines.",
            next_step="Restart the service with --yes to confirm it.",
        )


def _reread(context: typer.Context) -> Config:
    """The settings as they are now; ConfigError when the file has not been confirmed."""
    from operator_sre.app.config_trust import must_be_confirmed

    config = config_at(context, Path.cwd())
    must_be_confirmed(config, Path.cwd())
    return config


def _send_log(config: Config) -> None:
    """Send the log to the file of these settings; without one it stays on stderr."""
    from operator_sre.faces.cli.log_file import log_to_file

    if config.service.log_file is not None:
        log_to_file(config.service.log_file, style=config.values["log_format"])


def _exposures(config: Config) -> Sequence[Asked]:
    """What a person confirms before the listeners of these settings open."""
    from operator_sre.app.listeners import exposure_of

    found = [
        exposure_of(_listener(config, name), purpose)
        for name, purpose in _PURPOSES.items()
        if name in config.service.parts
    ]
    return [change for change in found if change is not None]


def _listener(config: Config, name: str) -> Listener:
    from operator_sre.app.listeners import Listener

    service = config.service
    host, _, port = service.addresses[name].rpartition(":")
    # Senders of alerts use HTTP, and each trigger has a secret of its own.
    tls = name != "alerts"
    return Listener(
        host.strip("[]"),
        int(port),
        service.tls_cert if tls else None,
        service.tls_key if tls else None,
        service.hosts,
        # Encryption may end in front of us: in a proxy, or at the edge of a cluster.
        insecure=True,
    )


def _starts(config: Config) -> dict[str, Start]:
    """How each part of these settings is started, each with the home opened for itself."""
    from operator_sre.app import service
    from operator_sre.app.wiring import open_app

    def start(work: Callable[[App, Callable[[str], None]], Coroutine[Any, Any, None]]) -> Start:
        async def begin(ready: Callable[[str], None]) -> None:
            with open_app(config) as home:
                await work(home, ready)

        return begin

    async def monitor(home: App, ready: Callable[[str], None]) -> None:
        ready("")
        await service.watch_all(home)

    async def agent(home: App, ready: Callable[[str], None]) -> None:
        ready("")
        await service.agent(home, role="service")

    async def web(home: App, ready: Callable[[str], None]) -> None:
        from operator_sre.faces.web.listener import serve

        await serve(home, _listener(config, "web"), ready=ready)

    async def api(home: App, ready: Callable[[str], None]) -> None:
        from operator_sre.faces.api.listener import serve

        await serve(home, _listener(config, "api"), ready=ready)

    async def mcp(home: App, ready: Callable[[str], None]) -> None:
        from operator_sre.faces.mcp.listener import serve_http

        await serve_http(home, _listener(config, "mcp"), ready=ready)

    async def alerts(home: App, ready: Callable[[str], None]) -> None:
        from operator_sre.app.alerts import Receiver
        from operator_sre.faces.receiver.application import serve

        address = config.service.addresses["alerts"]
        await serve(Receiver(home), address, ready=lambda at: ready(f"http://{at}"))

    works = {
        "monitor": monitor,
        "agent": agent,
        "web": web,
        "api": api,
        "mcp": mcp,
        "alerts": alerts,
    }
    return {name: start(works[name]) for name in config.service.parts}

"""The router: an action runs where its target says, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError, OperatorError
from operator_protocols.ports import Shell
from operator_sre.executor.docker import Address, Engine
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.executor.transports.shells import HERE, Remotes, Shells
from operator_sre.executor.transports.ssh import SshSettings
from tests.executor.jobs import new_job, run_in
from tests.executor.transports.sshd import Sshd, serving_ssh
from tests.executor.transports.stand_in_kubectl import POD_UID, stand_in_kubectl

pytestmark = pytest.mark.asyncio
WHERE = 'echo "${OPERATOR_JOB:+elsewhere}"'


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving_ssh(tmp_path_factory.mktemp("sshd")) as one:
        yield one


def _target(name: str, address: str = "") -> Target:
    return Target(name, "node", runs_at=address)


def _shells(folder: Path, *targets: Target, sshd: Sshd | None = None) -> Shells:
    spool = Spool(folder / "spool")
    programs = Programs(spool)
    remotes = Remotes(programs, spool, engine=Engine(Address(socket=str(folder / "none.sock"))))
    if sshd is not None:
        remotes = replace(
            remotes,
            ssh=SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,)),
            kubectl=stand_in_kubectl(folder / "bin", sshd),
        )
    return Shells(LocalShell(programs), lambda: targets, remotes)


async def _placed(shells: Shells, action: Action) -> Action:
    """The action as it is proposed: bound to where its target is now."""
    place = await shells.identify(action.target)
    return replace(action, place="" if place == HERE else place)


async def test_each_action_runs_where_its_target_says(sshd: Sshd, tmp_path: Path) -> None:
    shells = _shells(
        tmp_path,
        _target("here"),
        _target("there", sshd.address),
        _target("pod", "kubectl://lab/shop/web-0/app"),
        sshd=sshd,
    )
    assert isinstance(shells, Shell)
    for target, said in (("", ""), ("here", ""), ("there", "elsewhere"), ("pod", "elsewhere")):
        action = await _placed(shells, Action.shell(WHERE, target=target))
        job = new_job()
        assert (await shells.run(action, job)).stdout.strip() == said
        assert (await shells.recover(action, job)).stdout.strip() == said
    assert await shells.identify("") == HERE
    assert await shells.identify("here") == HERE
    assert (await shells.identify("there")).startswith(f"{sshd.address} SHA256:")
    assert (await shells.identify("pod")).endswith(f"/web-0/app {POD_UID}")
    await shells.aclose()


async def test_targets_of_one_place_share_a_connection(sshd: Sshd, tmp_path: Path) -> None:
    shells = _shells(
        tmp_path,
        _target("a", sshd.address),
        _target("b", sshd.address),
        sshd=sshd,
    )
    before = (sshd.folder / "log").read_text().count("Accepted")
    for target in ("a", "b", "a"):
        action = await _placed(shells, Action.shell("true", target=target))
        assert (await run_in(shells, action)).ok
    assert (sshd.folder / "log").read_text().count("Accepted") == before + 1
    await shells.aclose()


@pytest.mark.parametrize("target", ["unknown", "wrong", "twice"])
async def test_what_has_no_place_runs_nowhere(tmp_path: Path, target: str) -> None:
    shells = _shells(
        tmp_path,
        _target("wrong", "telnet://x"),
        _target("twice"),
        _target("twice", "ssh://root@elsewhere"),
    )
    file = tmp_path / "ran"
    action = Action.shell(f"touch {file}", target=target)
    result = await run_in(shells, action)
    assert (result.outcome, result.category) == (Outcome.REFUSED, FailureCategory.NOT_FOUND)
    assert result.stderr
    assert (await shells.recover(action, new_job())).outcome is Outcome.UNKNOWN
    with pytest.raises(ConfigError):
        await shells.identify(target)
    assert not file.exists()


async def test_a_target_that_moved_is_found_where_it_is_now(sshd: Sshd, tmp_path: Path) -> None:
    targets = [_target("node")]
    spool = Spool(tmp_path / "spool")
    programs = Programs(spool)
    settings = SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,))
    shells = Shells(LocalShell(programs), lambda: targets, Remotes(programs, spool, ssh=settings))
    action = Action.shell(WHERE, target="node")
    assert (await run_in(shells, action)).stdout.strip() == ""
    targets[0] = _target("node", sshd.address)
    moved = await run_in(shells, action)
    assert moved.outcome is Outcome.REFUSED, "it was permitted for here"
    assert (await run_in(shells, await _placed(shells, action))).stdout.strip() == "elsewhere"
    await shells.aclose()


async def test_a_docker_engine_that_is_away_is_told(tmp_path: Path) -> None:
    shells = _shells(tmp_path, _target("web", "docker://web"))
    result = await run_in(shells, Action.shell("true", target="web"))
    assert (result.outcome, result.category) == (Outcome.REFUSED, FailureCategory.NETWORK)
    assert "No Docker engine answers" in result.stderr
    with pytest.raises(OperatorError, match="No Docker engine answers"):
        await shells.identify("web")
    recovered = await shells.recover(Action.shell("true", target="web"), new_job())
    assert recovered.outcome is Outcome.UNKNOWN

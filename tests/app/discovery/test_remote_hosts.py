"""Hosts that the user names are read over ssh, proposed as machines, and never changed."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.errors import ConfigError
from operator_sre.app.discovery import discover, write_subjects
from operator_sre.app.discovery.discover import _propose
from operator_sre.app.discovery.handshake import Heard
from operator_sre.app.discovery.kinds import KINDS
from operator_sre.app.discovery.listeners import Listener
from operator_sre.app.discovery.remote_hosts import read_sockets
from operator_sre.app.discovery.settings_file import describe
from operator_sre.app.subjects import subject_of
from operator_sre.executor.transports.ssh import SshSettings
from tests.app.discovery.test_discovery import home_in
from tests.executor.transports.sshd import Sshd, serving_ssh

pytestmark = pytest.mark.asyncio

SS = """\
LISTEN 0      511          0.0.0.0:6379       0.0.0.0:*    users:(("redis-server",pid=812,fd=6))
LISTEN 0      511             [::]:6379          [::]:*    users:(("redis-server",pid=812,fd=7))
LISTEN 0      80         127.0.0.1:3306       0.0.0.0:*    users:(("mariadbd",pid=901,fd=22))
LISTEN 0      4096   127.0.0.53%lo:53         0.0.0.0:*
LISTEN 0      128                *:22               *:*    users:(("sshd",pid=1,fd=3))
LISTEN 0      128        10.0.0.5:9100        0.0.0.0:*
Cannot open netlink socket: no
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving_ssh(tmp_path_factory.mktemp("sshd")) as one:
        yield one


async def test_servers_that_others_reach_are_told_from_those_of_the_machine_alone() -> None:
    reached, hidden = read_sockets(SS, "web-1", 22)
    assert reached == [
        Listener("web-1", 6379, 812, "redis-server"),
        Listener("web-1", 9100),
    ]
    assert [each.port for each in hidden] == [53, 3306]
    assert hidden[1].source == "mariadbd (pid 901) listens at 127.0.0.1:3306"


async def test_a_host_is_proposed_written_watched_and_then_proposed_no_more(
    sshd: Sshd, tmp_path: Path
) -> None:
    ssh = SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,))
    with home_in(tmp_path) as app:
        found = await discover(app, ports=(1,), hosts=[sshd.address], ssh=ssh)
        (proposal,) = found.proposals
        assert (proposal.pack, proposal.places) == ("linux-host", (sshd.address,))
        assert proposal.why[0].startswith("it can be reached over ssh")
        written = write_subjects(app.config, found.proposals, folder=tmp_path)
    assert tomllib.loads(Path(written.config).read_text())["mode"] == "observe"
    with home_in(tmp_path) as app:
        (target,) = subject_of(app, proposal.name).targets()
        assert (target.kind, target.runs_at) == ("host", sshd.address)
        again = await discover(app, ports=(1,), hosts=[sshd.address], ssh=ssh)
    assert again.proposals == ()
    assert [each.why for each in again.watched] == [f"watched as {proposal.name}"]


async def test_a_host_that_cannot_be_read_is_named_with_the_reason(
    sshd: Sshd, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    unknown = SshSettings(known_hosts=tmp_path / "none", keys=(sshd.key,))
    gone = f"ssh://{sshd.user}@127.0.0.1:{free_port()}"
    with home_in(tmp_path) as app:
        found = await discover(app, ports=(1,), hosts=[sshd.address, gone], ssh=unknown)
        assert found.proposals == ()
        assert [each.source for each in found.left_out] == [
            f"the host {sshd.address}",
            f"the host {gone}",
        ]
        assert all(each.why for each in found.left_out)
        for wrong in ("web-1", "docker://web", "ssh://root:pw@web-1", "root@web-1:99999"):
            with pytest.raises(ConfigError) as raised:
                await discover(app, ports=(1,), hosts=[wrong])
            assert "pw" not in str(raised.value)


async def test_files_of_this_machine_are_never_taken_for_those_of_another(tmp_path: Path) -> None:
    reached, _ = read_sockets(SS, "web-1", 22)
    redis = next(kind for kind in KINDS if kind.name == "redis")
    (made,) = _propose([(reached[0], redis, Heard("redis"), "")], ())
    text = describe(replace(made, is_remote=True))
    assert "    host: web-1\n" in text
    for line in text.splitlines():
        assert not line.startswith(("    pid_file:", "    log:", "    data_dir:")), line

"""Containers of a real engine are put on networks and taken off, and who else is there is told."""

from __future__ import annotations

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.category import FailureCategory
from tests.engines.dockerd import Engine
from tests.executor.tools.hands import Hands

pytestmark = [pytest.mark.asyncio, pytest.mark.system]

STAYS = ("sh", "-c", "while :; do sleep 1000; done")


def _on(engine: Engine, network: str, name: str = "") -> str:
    return engine.run(*STAYS, name=name, HostConfig={"NetworkMode": network})


def _networks(engine: Engine, container: str) -> set[str]:
    return set(engine.inspect(container)["NetworkSettings"]["Networks"])


async def test_connected_with_an_alias_it_is_reached_by_it(engine: Engine, hands: Hands) -> None:
    first, second = engine.network(), engine.network()
    neighbour, name = engine.name(), engine.name()
    other = _on(engine, second, neighbour)
    made = _on(engine, first, name)
    action = await hands.propose(
        "docker_network_connect", container=name, network=second, alias="cache"
    )
    assert neighbour in action.expected
    result = await hands.call(action)
    assert result.ok, result
    assert (result.data["changed"], result.data["others"]) == (True, neighbour)
    assert neighbour in result.stdout
    assert _networks(engine, made) == {first, second}
    pinged = await hands.do(
        "docker_exec", container=other, argv=("ping", "-c", "1", "-W", "5", "cache")
    )
    assert pinged.ok, pinged

    assert result.undo is not None
    undone = await hands.call(result.undo)
    assert (undone.ok, undone.data["changed"]) == (True, True)
    assert _networks(engine, made) == {first}


async def test_connecting_again_changes_nothing(engine: Engine, hands: Hands) -> None:
    network = engine.network()
    made = _on(engine, network)
    result = await hands.do("docker_network_connect", container=made, network=network)
    assert (result.ok, result.data["changed"], result.undo) == (True, False, None)


async def test_another_alias_needs_a_new_connection(engine: Engine, hands: Hands) -> None:
    network = engine.network()
    made = _on(engine, network)
    result = await hands.do(
        "docker_network_connect", container=made, network=network, alias="other"
    )
    assert result.exit_code == 1
    assert "without the alias" in result.stderr


@pytest.mark.parametrize("force", [False, True])
async def test_disconnected_and_taken_back_with_its_alias(
    engine: Engine, hands: Hands, force: bool
) -> None:
    network, name = engine.network(), engine.name()
    made = _on(engine, engine.network(), name)
    done = await hands.do("docker_network_connect", container=name, network=network, alias="cache")
    assert done.ok, done
    result = await hands.do(
        "docker_network_disconnect", container=name, network=network, force=force
    )
    assert (result.ok, result.data["changed"]) == (True, True), result
    assert network not in _networks(engine, made)
    again = await hands.do("docker_network_disconnect", container=name, network=network)
    assert (again.ok, again.data["changed"], again.undo) == (True, False, None)

    assert isinstance(result.undo, Action)
    assert (await hands.call(result.undo)).ok
    aliases = engine.inspect(made)["NetworkSettings"]["Networks"][network]["Aliases"]
    assert "cache" in aliases


async def test_no_undo_where_an_address_would_be_lost(engine: Engine, hands: Hands) -> None:
    network = engine.name()
    pool = {"Config": [{"Subnet": "10.213.7.0/24"}]}
    engine.ask("POST", "/networks/create", {"Name": network, "Internal": True, "IPAM": pool})
    made = _on(engine, engine.network())
    fixed = {"IPAMConfig": {"IPv4Address": "10.213.7.9"}}
    try:
        engine.ask(
            "POST",
            f"/networks/{network}/connect",
            {"Container": made, "EndpointConfig": fixed},
        )
        result = await hands.do("docker_network_disconnect", container=made, network=network)
        assert (result.data["changed"], result.undo) == (True, None)
    finally:
        engine.remove(made)
        engine.ask("DELETE", f"/networks/{network}")


@pytest.mark.parametrize("tool", ["docker_network_connect", "docker_network_disconnect"])
async def test_both_have_to_be_there(engine: Engine, hands: Hands, tool: str) -> None:
    network, made = engine.network(), _on(engine, "none")
    no_network = await hands.do(tool, container=made, network="no-such-network")
    assert (no_network.exit_code, no_network.category) == (1, FailureCategory.NOT_FOUND)
    assert "no-such-network" in no_network.stderr
    nobody = await hands.do(tool, container="nobody-at-home", network=network)
    assert (nobody.exit_code, nobody.category) == (1, FailureCategory.NOT_FOUND)
    assert "nobody-at-home" in nobody.stderr


async def test_another_network_under_the_same_name_is_refused(engine: Engine, hands: Hands) -> None:
    network = engine.network()
    made = _on(engine, engine.network())
    action = await hands.propose("docker_network_connect", container=made, network=network)
    engine.ask("DELETE", f"/networks/{network}")
    engine.network(network)
    result = await hands.call(action)
    assert result.outcome is Outcome.REFUSED
    assert "another network by now" in result.stderr
    assert network not in _networks(engine, made)


async def test_a_network_that_was_not_bound_is_refused(engine: Engine, hands: Hands) -> None:
    network, made = engine.network(), engine.run(*STAYS)
    arguments = {"container": made, "network": network, "id": made}
    result = await hands.bare("docker_network_connect", arguments)
    assert result.outcome is Outcome.REFUSED

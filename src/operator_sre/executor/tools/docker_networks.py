"""Put a container on a network, and take it off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.domain.tool import Parameter, ParameterType, Prepared, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.executor.docker.answers import Attached, Container, Network
from operator_sre.executor.docker.engine import Engine, EngineError
from operator_sre.executor.tools.docker_tool import (
    CONTAINER,
    ID,
    DockerTool,
    Refusal,
    did,
    failed_by,
    failure,
    is_name,
)
from operator_sre.executor.tools.parameters import Validated

__all__ = ["NetworkConnect", "NetworkDisconnect"]

OTHERS_MAX = 20
_NETWORK = Parameter("network", "the name or id of the network", minimum=1, maximum=128)
_NETWORK_ID = Parameter(
    "network_id", "the network's full id; looked up when the action is proposed", required=False
)


class _NetworkTool(DockerTool):
    async def bind(
        self, engine: Engine, container: Container, arguments: Mapping[str, Argument]
    ) -> Prepared:
        """The ids of both, and who else is on the network."""
        bound = {"id": container.id}
        name = arguments.get("network")
        if not isinstance(name, str) or not is_name(name):
            return Prepared(bound)
        try:
            network = await _find(engine, name)
        except (EngineError, Refusal):
            return Prepared(bound)
        expected = f"{self.spec.expected} {_others_on(network, container)}"
        return Prepared({**bound, "network_id": network.id}, expected=expected)

    async def network(self, engine: Engine, given: Validated) -> Network:
        """The network as it is now, if it is the network of the proposal."""
        name, wanted = given.text("network"), given.text("network_id")
        network = await _find(engine, name)
        if network.id != wanted:
            how = "is another network by now" if wanted else "is not bound to a network id"
            raise Refusal(
                Result(Outcome.REFUSED, stderr=f"{name!r} {how}. Propose the action again.")
            )
        return network


class NetworkConnect(_NetworkTool):
    """Connects a container to a network, unless it is connected."""

    spec = ToolSpec(
        name="docker_network_connect",
        sentence="Connects a container to a network.",
        parameters=(
            *(CONTAINER, _NETWORK),
            Parameter(
                "alias", "an alias of the container in the network", required=False, maximum=128
            ),
            *(ID, _NETWORK_ID),
        ),
        risk=Risk.MEDIUM,
        changes=True,
        reversible=True,
        idempotent=True,
        undo="docker_network_disconnect",
        expected="The container is connected to the network.",
        verify="docker_inspect lists the network.",
        timeout_s=60.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Connect it; `changed` in the data is False when it was connected already."""
        network, alias = await self.network(engine, given), given.text("alias")
        attached = _attachment(container, network)
        if attached is not None:
            if alias and alias not in (attached.aliases or ()):
                return failure(
                    f"{container.label} is already connected to {network.name!r}, without the alias"
                    f" {alias!r}. Disconnect it first.",
                    FailureCategory.RUNTIME,
                )
            return did(
                f"{container.label} is already connected to {network.name!r}.",
                _data(container, network, changed=False),
            )
        answer = await engine.ask(
            "POST",
            f"/networks/{network.id}/connect",
            body={
                "Container": container.id,
                "EndpointConfig": {"Aliases": [alias] if alias else []},
            },
        )
        if not answer.ok:
            return failed_by(answer)
        result = did(
            f"{container.label} was connected to {network.name!r}."
            f" {_others_on(network, container)}",
            _data(container, network, changed=True),
        )
        return replace(result, undo=_reverse("docker_network_disconnect", container, network))


class NetworkDisconnect(_NetworkTool):
    """Disconnects a container from a network, unless it is not connected."""

    spec = ToolSpec(
        name="docker_network_disconnect",
        sentence=(
            "Disconnects a container from a network: other containers there cannot reach it any "
            "more."
        ),
        parameters=(
            *(CONTAINER, _NETWORK),
            Parameter(
                "force",
                "disconnect even if the Docker engine would refuse",
                ParameterType.BOOLEAN,
                required=False,
                default=False,
            ),
            *(ID, _NETWORK_ID),
        ),
        risk=Risk.MEDIUM,
        changes=True,
        reversible=True,
        idempotent=True,
        undo="docker_network_connect",
        expected="The container is not connected to the network.",
        verify="docker_inspect does not list the network.",
        timeout_s=60.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Disconnect it; `changed` in the data is False when it was not connected."""
        network = await self.network(engine, given)
        attached = _attachment(container, network)
        if attached is None:
            return did(
                f"{container.label} is not connected to {network.name!r}.",
                _data(container, network, changed=False),
            )
        answer = await engine.ask(
            "POST",
            f"/networks/{network.id}/disconnect",
            body={"Container": container.id, "Force": given.flag("force")},
        )
        if not answer.ok:
            return failed_by(answer)
        result = did(
            f"{container.label} was disconnected from {network.name!r}."
            f" {_others_on(network, container)}",
            _data(container, network, changed=True),
        )
        names = [each for each in attached.aliases or () if each != container.id[:12]]
        if len(names) > 1 or any((attached.fixed or {}).values()):
            return result  # its other names or its fixed address would not come back
        undo = _reverse("docker_network_connect", container, network)
        more = {"alias": names[0]} if names else {}
        return replace(result, undo=replace(undo, arguments={**undo.arguments, **more}))


async def _find(engine: Engine, name: str) -> Network:
    answer = await engine.ask("GET", f"/networks/{name}")
    if not answer.ok:
        raise Refusal(failed_by(answer))
    return answer.read(Network)


def _attachment(container: Container, network: Network) -> Attached | None:
    """Its place on the network; before it was first started, only the name tells."""
    for name, attached in container.networks.items():
        if attached.network == network.id or (not attached.network and name == network.name):
            return attached
    return None


def _others_on(network: Network, container: Container) -> str:
    others = network.others(container.id)
    more = f" and {len(others) - OTHERS_MAX} more" if len(others) > OTHERS_MAX else ""
    return f"Other containers on it: {', '.join(others[:OTHERS_MAX]) or 'none'}{more}."


def _data(container: Container, network: Network, *, changed: bool) -> dict[str, Value]:
    others = network.others(container.id)
    return {
        "id": container.id,
        "network_id": network.id,
        "changed": changed,
        "others": ", ".join(others[:OTHERS_MAX]),
        "others_count": len(others),
    }


def _reverse(tool: str, container: Container, network: Network) -> Action:
    return Action(
        tool,
        {
            "container": container.name.removeprefix("/"),
            "network": network.name,
            "id": container.id,
            "network_id": network.id,
        },
    )

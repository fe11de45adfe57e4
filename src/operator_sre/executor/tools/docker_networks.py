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
    failed,
    failed_by,
    is_name,
)
from operator_sre.executor.tools.parameters import Validated

__all__ = ["NetworkConnect", "NetworkDisconnect"]

OTHERS_MAX = 20
_NETWORK = Parameter("network", "the name or id of the network", minimum=1, maximum=128)
_NETWORK_ID = Parameter(
    "network_id", "the network's full id; looked up when it is proposed", required=False
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
        expected = f"{self.spec.expected} {_told(network, container)}"
        return Prepared({**bound, "network_id": network.id}, expected=expected)

    async def network(self, engine: Engine, given: Validated) -> Network:
        """The network as it is now, when it is the one that the call was proposed for."""
        name, wanted = given.text("network"), given.text("network_id")
        network = await _find(engine, name)
        if network.id != wanted:
            how = "is another network by now" if wanted else "was not bound to a network's id"
            raise Refusal(Result(Outcome.REFUSED, stderr=f"{name!r} {how}. Propose it again."))
        return network


class NetworkConnect(_NetworkTool):
    """Puts a container on a network; one that is on it stays as it is."""

    spec = ToolSpec(
        name="docker_network_connect",
        sentence="It puts a container on a network.",
        parameters=(
            *(CONTAINER, _NETWORK),
            Parameter("alias", "another name for it there", required=False, maximum=128),
            *(ID, _NETWORK_ID),
        ),
        risk=Risk.MEDIUM,
        changes=True,
        reversible=True,
        idempotent=True,
        undo="docker_network_disconnect",
        expected="That the container is on the network.",
        verify="docker_inspect names the network.",
        timeout_s=60.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Connect it; `changed` in the data is False when it was connected already."""
        network, alias = await self.network(engine, given), given.text("alias")
        attached = _attached(container, network)
        if attached is not None:
            if alias and alias not in (attached.aliases or ()):
                return failed(
                    f"{container.label} is on {network.name!r} already, without the alias"
                    f" {alias!r}. Disconnect it first.",
                    FailureCategory.RUNTIME,
                )
            return did(
                f"{container.label} is on {network.name!r} already.",
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
        told = did(
            f"{container.label} was put on {network.name!r}. {_told(network, container)}",
            _data(container, network, changed=True),
        )
        return replace(told, undo=_reverse("docker_network_disconnect", container, network))


class NetworkDisconnect(_NetworkTool):
    """Takes a container off a network; one that is not on it stays as it is."""

    spec = ToolSpec(
        name="docker_network_disconnect",
        sentence="It takes a container off a network: the others there do not reach it any more.",
        parameters=(
            *(CONTAINER, _NETWORK),
            Parameter(
                "force",
                "also where the engine would refuse",
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
        expected="That the container is not on the network.",
        verify="docker_inspect does not name the network.",
        timeout_s=60.0,
    )

    async def act(self, engine: Engine, container: Container, given: Validated, job: Job) -> Result:
        """Disconnect it; `changed` in the data is False when it was not connected."""
        network = await self.network(engine, given)
        attached = _attached(container, network)
        if attached is None:
            return did(
                f"{container.label} is not on {network.name!r}.",
                _data(container, network, changed=False),
            )
        answer = await engine.ask(
            "POST",
            f"/networks/{network.id}/disconnect",
            body={"Container": container.id, "Force": given.flag("force")},
        )
        if not answer.ok:
            return failed_by(answer)
        told = did(
            f"{container.label} was taken off {network.name!r}. {_told(network, container)}",
            _data(container, network, changed=True),
        )
        names = [one for one in attached.aliases or () if one != container.id[:12]]
        if len(names) > 1 or any((attached.fixed or {}).values()):
            return told  # its other names or its fixed address would not come back
        undo = _reverse("docker_network_connect", container, network)
        more = {"alias": names[0]} if names else {}
        return replace(told, undo=replace(undo, arguments={**undo.arguments, **more}))


async def _find(engine: Engine, name: str) -> Network:
    answer = await engine.ask("GET", f"/networks/{name}")
    if not answer.ok:
        raise Refusal(failed_by(answer))
    return answer.read(Network)


def _attached(container: Container, network: Network) -> Attached | None:
    """Its place on the network; before it was first started, only the name tells."""
    for name, attached in container.networks.items():
        if attached.network == network.id or (not attached.network and name == network.name):
            return attached
    return None


def _told(network: Network, container: Container) -> str:
    others = network.others(container.id)
    more = f" and {len(others) - OTHERS_MAX} more" if len(others) > OTHERS_MAX else ""
    return f"On it are also: {', '.join(others[:OTHERS_MAX]) or 'none'}{more}."


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

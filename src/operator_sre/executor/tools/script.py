"""Run a mind's own script in a box, where it can look at what it is handed and compute."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.category import ErrorCategory, FailureCategory
from operator_protocols.domain.tool import Parameter, ParameterType, Prepared, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.executor.sandbox import Language, Limits, Sandbox, Script
from operator_sre.executor.sandbox.box import TIMEOUT_S, TIMEOUT_S_MAX
from operator_sre.executor.scripts import Layer, Validation
from operator_sre.executor.tools.parameters import checked

__all__ = ["ExecuteScript"]

LOOK_S_MAX = 10.0
_IN_RIG = (
    "It runs a script of up to 10,000 characters in a sandbox: of all networks it reaches the"
    " targets of this rig, through an HTTP proxy; what it prints comes back."
)
_CATEGORIES = {
    Layer.SIZE: FailureCategory.RESOURCE,
    Layer.SYNTAX: FailureCategory.SYNTAX,
    Layer.SECRETS: FailureCategory.PERMISSION,
    Layer.DANGEROUS: FailureCategory.PERMISSION,
}
_ERRORS = {
    Layer.SECRETS: ErrorCategory.SECRET_SCAN_FAILED,
    Layer.DANGEROUS: ErrorCategory.POLICY_DENIED,
}


class ExecuteScript:
    """Looks at a script in layers, then runs it in a box; `hosts` are all that it reaches.

    With `in_rig` they are the targets of a rig and nothing else: then it is a change like others.
    """

    spec = ToolSpec(
        name="execute_script",
        sentence=(
            "It runs a script of up to 10,000 characters in a sandbox: no network, nothing of the"
            " machine is changed; what it prints comes back."
        ),
        parameters=(
            Parameter("language", "what it is written in", choices=tuple(map(str, Language))),
            Parameter("text", "the script"),
            Parameter(
                "timeout_s",
                "how many seconds it may take",
                ParameterType.NUMBER,
                required=False,
                default=TIMEOUT_S,
                minimum=0.1,
                maximum=TIMEOUT_S_MAX,
            ),
            Parameter(
                "inputs",
                "name -> text of files that it finds in /inputs, where it cannot change them",
                ParameterType.MAP,
                required=False,
            ),
        ),
        risk=Risk.CRITICAL,
        changes=True,
        expected="What the script prints, its exit code, and whether it took too long.",
        timeout_s=TIMEOUT_S_MAX,
    )

    def __init__(
        self,
        sandbox: Sandbox,
        validation: Validation,
        *,
        hosts: Callable[[], tuple[str, ...]] = tuple,
        in_rig: bool = False,
    ) -> None:
        if in_rig:
            self.spec = replace(self.spec, sentence=_IN_RIG, risk=Risk.MEDIUM)
        self._sandbox = sandbox
        self._validation = validation
        self._hosts = hosts

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Run it, unless a layer finds something; `layer` in the data says which."""
        given = checked(self.spec, arguments)
        if isinstance(given, Result):
            return given
        language, text = Language(given.text("language")), given.text("text")
        if flaws := await self._validation.check(language, text, job):
            layer = flaws[0].layer
            data = {"layer": layer.value}
            if layer in _ERRORS:
                data["error_category"] = _ERRORS[layer].value
            return Result(
                Outcome.REFUSED,
                stderr="The script was not run.\n" + "".join(f"{flaw}\n" for flaw in flaws),
                category=_CATEGORIES[layer],
                data=data,
            )
        table = given.table("inputs")
        inputs = {name: value.encode("utf-8", "replace") for name, value in table.items()}
        script = Script(language, text, inputs, self._hosts())
        return await self._sandbox.run(script, Limits(timeout_s=given.number("timeout_s")), job)

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """Look at the script before anybody is asked about it."""
        language, text = arguments.get("language"), arguments.get("text")
        if language not in tuple(map(str, Language)) or not isinstance(text, str):
            return Prepared()
        looking = Job(secrets.token_hex(16), LOOK_S_MAX)
        flaws = await self._validation.check(Language(str(language)), text, looking)
        category = _ERRORS.get(flaws[0].layer) if flaws else None
        return Prepared(flaws=tuple(map(str, flaws)), category=category or "")

    async def recover(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """What became of a script whose operator is gone; it starts nothing."""
        return await self._sandbox.recover(job)

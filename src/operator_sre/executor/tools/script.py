"""Run the script of an agent in a sandbox, where it can read its inputs and compute."""

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
from operator_sre.executor.tools.parameters import check_arguments

__all__ = ["CheckScript", "ExecuteScript"]

LOOK_S_MAX = 10.0
_IN_RIG = (
    "Runs a script of up to 10,000 characters in a sandbox and returns its output. It reaches"
    " the targets of this rig through an HTTP proxy, and no other network."
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
    """Checks a script, then runs it in a sandbox; `hosts` are all that it reaches.

    With `in_rig` they are the targets of a rig and nothing else: then it is a change like others.
    """

    spec = ToolSpec(
        name="execute_script",
        sentence=(
            "Runs a script of up to 10,000 characters in a sandbox and returns its output. It has"
            " no network and cannot change the machine."
        ),
        parameters=(
            Parameter("language", "the language of the script", choices=tuple(map(str, Language))),
            Parameter("text", "the script"),
            Parameter(
                "timeout_s",
                "the time limit in seconds",
                ParameterType.NUMBER,
                required=False,
                default=TIMEOUT_S,
                minimum=0.1,
                maximum=TIMEOUT_S_MAX,
            ),
            Parameter(
                "inputs",
                "the files in /inputs: name -> content; the script cannot change them",
                ParameterType.MAP,
                required=False,
            ),
        ),
        risk=Risk.CRITICAL,
        changes=True,
        expected="The output of the script, its exit code, and whether it timed out.",
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
        given = check_arguments(self.spec, arguments)
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
        """Check the script before approval is requested."""
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


class CheckScript(ExecuteScript):
    """The same in a box that reaches nothing and of which nothing stays: it can only compute."""

    spec = replace(
        ExecuteScript.spec,
        name="check_script",
        sentence=(
            "Runs a script of up to 10,000 characters in a disposable sandbox and returns its"
            " output. It reaches no host, and nothing that it writes stays."
        ),
        risk=Risk.LOW,
        changes=False,
        idempotent=True,
    )

    def __init__(self, sandbox: Sandbox, validation: Validation) -> None:
        super().__init__(sandbox, validation)

"""The one exception tree: what can go wrong that a person has to know about.

OperatorError                      one sentence, the next step, a category, an exit code
├── UsageError                     the request is invalid (exit 2)
│   ├── ConfigError                a setting is unknown, of the wrong type, or out of range
│   └── NotFoundError              a named thing does not exist; the message lists what does
├── MissingExtraError              an optional part of the product is not installed
├── MissingPluginError             a plug-in cannot be loaded or is not one
├── StoreError                     the database cannot be opened, read or written
│   ├── ConflictError              another process wrote first; nothing was written
│   └── LedgerDamagedError         the chain does not verify; the message names the entry
├── RigError                       the lab cannot start, reach or stop a rig
│   ├── MissingProgramError        a program that a rig runs is not on this machine
│   └── PortTakenError             another process took the port first; retry with another
├── ModelError                     a model does not answer, or its answer is unusable
├── ExecutorError                  the runner, or the place where commands run, is unreachable
├── PermitError                    a permit is used, expired, or not for this action (exit 3)
├── AuthorityError                 the caller lacks the permission (exit 3)
└── ObservationError               a subject cannot be observed; its health is UNKNOWN

Expected failures are values: a command that fails is a Result, a refusal is a Verdict.
"""

from __future__ import annotations

from operator_protocols.domain.category import ControlCategory, ErrorCategory, NextAction

__all__ = [
    "AuthorityError",
    "ConfigError",
    "ConflictError",
    "ExecutorError",
    "LedgerDamagedError",
    "MissingExtraError",
    "MissingPluginError",
    "MissingProgramError",
    "ModelError",
    "NotFoundError",
    "ObservationError",
    "OperatorError",
    "PermitError",
    "PortTakenError",
    "RigError",
    "StoreError",
    "UsageError",
]


class OperatorError(Exception):
    """A failure in one sentence, with the next step for the user."""

    exit_code = 1
    category = ErrorCategory.AGENT_RUNTIME_EXCEPTION
    next_action = NextAction.ASK_USER
    control: ControlCategory | None = None

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message} {self.next_step}".strip()


class UsageError(OperatorError):
    """The request is invalid."""

    exit_code = 2
    category = ErrorCategory.POLICY_VALIDATION_FAILED
    next_action = NextAction.FIX_CODE


class ConfigError(UsageError):
    """A setting is unknown, of the wrong type, or out of range."""


class NotFoundError(UsageError):
    """A named thing does not exist."""


class MissingExtraError(OperatorError):
    """An optional part of the product is needed and not installed."""

    category = ErrorCategory.DEPENDENCY_CONFLICT
    next_action = NextAction.INSTALL_DEPENDENCY
    control = ControlCategory.FEATURE_NOT_ENABLED

    def __init__(self, extra: str, *, needed_for: str) -> None:
        # Every command imports this module, and few need what reads an installation.
        from operator_protocols.installation import how_to_add_extra

        super().__init__(
            f"{needed_for} needs the extra {extra!r}, which is not installed.",
            next_step=f"Install it with: {how_to_add_extra(extra)}",
        )


class MissingPluginError(OperatorError):
    """A plug-in cannot be loaded or is not one."""

    category = ErrorCategory.DEPENDENCY_CONFLICT
    next_action = NextAction.INSTALL_DEPENDENCY


class StoreError(OperatorError):
    """The database cannot be opened, read or written."""

    category = ErrorCategory.HARNESS_HEALTH_FAILED


class ConflictError(StoreError):
    """Another process wrote first; nothing was written."""


class LedgerDamagedError(StoreError):
    """The chain does not verify."""

    next_action = NextAction.EXPORT_AUDIT


class RigError(OperatorError):
    """The lab cannot start, reach or stop a rig."""

    category = ErrorCategory.HARNESS_HEALTH_FAILED
    next_action = NextAction.RERUN


class MissingProgramError(RigError):
    """A program that a rig runs is not on this machine, and none of our extras brings it."""

    category = ErrorCategory.DEPENDENCY_CONFLICT
    next_action = NextAction.INSTALL_DEPENDENCY

    def __init__(self, program: str, *, needed_for: str, next_step: str) -> None:
        message = f"{needed_for} needs {program}, which cannot be found on this machine."
        super().__init__(message, next_step=next_step)


class PortTakenError(RigError):
    """Another process took the port between choosing and binding it."""


class ExecutorError(OperatorError):
    """The runner, or the place where commands run, is unreachable."""

    category = ErrorCategory.AGENT_RUNTIME_EXCEPTION
    next_action = NextAction.RERUN


class ModelError(OperatorError):
    """A model does not answer, or its answer is unusable.

    `wait_s` is how long the model asked us to wait; `lasting` means that a retry cannot help;
    `unreachable` means that its endpoint refused the connection or did not answer in time.
    """

    next_action = NextAction.RERUN

    def __init__(
        self,
        message: str,
        *,
        next_step: str = "",
        wait_s: float = 0.0,
        lasting: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.wait_s = wait_s
        self.lasting = lasting
        self.unreachable = unreachable


class PermitError(OperatorError):
    """A permit is used up, expired, or issued for another action.

    `busy` means that only another running change is in the way: retry after it.
    """

    exit_code = 3
    category = ErrorCategory.POLICY_DENIED
    next_action = NextAction.REVIEW_POLICY_PATCH

    def __init__(self, message: str, *, next_step: str = "", busy: bool = False) -> None:
        super().__init__(message, next_step=next_step)
        self.busy = busy
        self.control = ControlCategory.CONCURRENCY_UNAVAILABLE if busy else None


class AuthorityError(OperatorError):
    """The caller lacks the permission."""

    exit_code = 3
    category = ErrorCategory.POLICY_DENIED
    next_action = NextAction.ASK_USER
    control = ControlCategory.MISSING_SCOPE


class ObservationError(OperatorError):
    """A subject cannot be observed, so its health is UNKNOWN."""

    category = ErrorCategory.HARNESS_HEALTH_FAILED

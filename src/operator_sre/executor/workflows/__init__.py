"""Several actions in an order: definitions, passed data, retries, rollback."""

from __future__ import annotations

from operator_sre.executor.workflows.carrier import Carrier, StepAction, StepResult
from operator_sre.executor.workflows.definition import Mistake, read_workflow
from operator_sre.executor.workflows.progress import order_of

__all__ = ["Carrier", "Mistake", "StepAction", "StepResult", "order_of", "read_workflow"]

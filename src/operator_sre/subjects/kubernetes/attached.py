"""A rig inside of a cluster that exists already: the sample in a namespace of its own. Data."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.errors import UsageError
from operator_protocols.kit.options import read_options

__all__ = ["attach"]

READY_S_MAX = 200.0
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster, and what of it is used. `image` is that of the sample application."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = "operator-lab"
    image: str = ""


def attach(given: Mapping[str, str]) -> RigSpec:
    """The sample and its customers in a namespace that only this rig has.

    UsageError for a kubeconfig that is not there, or a name that cannot be one.
    """
    wanted = read_options(Cluster, given, subject="an attached cluster")
    named = wanted.kubeconfig or os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    kubeconfig = Path(named or "~/.kube/config").expanduser().resolve()
    if not kubeconfig.is_file():
        raise UsageError(
            f"There is no kubeconfig {str(kubeconfig)!r}.", next_step="Name one with --kubeconfig."
        )
    for value, rule, option in (
        (wanted.namespace, _NAME, "namespace"),
        (wanted.image or "image", _IMAGE, "image"),
    ):
        if not rule.fullmatch(value):
            raise UsageError(f"{value[:80]!r} cannot be the name of a {option}.")
    options = {
        "kubeconfig": str(kubeconfig),
        "context": wanted.context,
        "namespace": wanted.namespace,
    }
    program = (sys.executable, "-P", "-m", "operator_lab.kubernetes.guest", "{dir}")
    # Only a namespace with this mark is ours, whatever else has its name.
    where = (
        *(word for name, value in options.items() for word in (f"--{name}", value)),
        *("--mark", secrets.token_hex(8)),
    )
    customers = ProcessSpec(
        "customers",
        "load",
        (*program, *where, "--image", wanted.image),
        ready_argv=("test", "-e", "{dir}/ready"),
        ready_s_max=READY_S_MAX,
        cleanup=((*program, *where, "--remove"),),
    )
    return RigSpec("kubernetes", (customers,), options=options)

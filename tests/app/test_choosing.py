"""Which subjects somebody means, and what they are told when nobody can know."""

from __future__ import annotations

import pytest

from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.wiring.home import choose_subjects

INSTALLED = ["etcd", "postgres"]


@pytest.mark.parametrize(
    ("named", "known", "meant"),
    [
        ([], ["shop"], ["shop"]),
        (["bank"], ["shop", "bank"], ["bank"]),
        (["bank", "shop", "bank"], ["shop", "bank"], ["bank", "shop"]),
    ],
)
def test_what_is_named_is_meant_or_the_only_one(
    named: list[str], known: list[str], meant: list[str]
) -> None:
    assert choose_subjects(named, known=known, installed=INSTALLED) == meant


@pytest.mark.parametrize(
    ("named", "known", "error", "told"),
    [
        ([], [], UsageError, "operator lab up"),
        ([], ["shop", "bank"], UsageError, "shop, bank"),
        (["etcd"], ["shop"], NotFoundError, "'etcd' is not configured and has no rig"),
        (["nobody"], ["shop"], NotFoundError, "Subjects here: shop."),
        (["shop", "nobody"], ["shop"], NotFoundError, "no subject 'nobody'"),
    ],
)
def test_who_cannot_be_meant_is_told_what_there_is(
    named: list[str], known: list[str], error: type[UsageError], told: str
) -> None:
    with pytest.raises(error) as caught:
        choose_subjects(named, known=known, installed=INSTALLED)
    assert told in str(caught.value)

"""Every golden vector passes, where the shared golden data is present."""

from __future__ import annotations

import pytest

from tests.conformance.run import GOLDEN, kinds, run


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the shared golden data is not beside this project (../shared/golden/cassette)")
@pytest.mark.parametrize("kind", kinds(GOLDEN) if GOLDEN.is_dir() else ["all kinds"])
def test_every_vector_of_the_kind_passes(kind: str) -> None:
    outcome = run(GOLDEN, kind)
    assert outcome.failures == []
    assert outcome.executed > 0

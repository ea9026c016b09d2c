"""The fit of NIST's data set Misra1a reaches the certified answer from both starting points."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

FIT = Path(__file__).parents[2] / "examples" / "misra1a" / "fit.py"


@pytest.fixture(scope="module")
def fit():
    spec = spec_from_file_location("misra1a_fit", FIT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_starts_reach_the_certified_answer(fit, capsys):
    results = fit.main()
    assert len(results) == len(fit.STARTS) == 2
    for result in results:
        found = dict(zip(fit.CERTIFIED, (*result.x, result.fun), strict=True))
        assert found == pytest.approx(fit.CERTIFIED, rel=1e-6)
    assert capsys.readouterr().out.count("certified") == 2

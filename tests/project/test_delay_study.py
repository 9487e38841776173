"""The delays that accelerated gossip bears, simulated beside what is predicted of them."""

from __future__ import annotations

import pytest

from continuized import network
from examples.delay_study import find_limit, main, study_delays


def test_predicted_beside_simulated() -> None:
    # In mean square the limit comes first; a typical run lasts longer, but not four times so.
    predicted = network.delay_limit("path:10")
    simulated = find_limit("path:10", runs=3)
    assert predicted < simulated < 4.0 * predicted
    before, after = study_delays("path:10", [0.2 * predicted, 4.0 * predicted], runs=3)
    assert before.stable
    assert not after.stable
    assert before.accelerated > before.plain > 0.0
    assert after.accelerated < 0.0 < after.plain
    assert after.share < 0.5 < before.share


def test_the_script_prints_a_row_for_each_delay(capsys: pytest.CaptureFixture[str]) -> None:
    main("path:5")
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("path:5: predicted limit")
    assert len(rows) == 5


@pytest.mark.parametrize("study", [find_limit, lambda *a, **k: study_delays(*a, [0.1], **k)])
def test_runs_are_counted(study: object) -> None:
    with pytest.raises(ValueError, match="runs must be an integer >= 1, got 0"):
        study("path:3", runs=0)

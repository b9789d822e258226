"""Tables: whole on any terminal and in any pipe."""

import io

import pytest

from rmt.experiments.run import run
from rmt.experiments.table import print_results
from tests.experiments.toy import EXPERIMENT


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_narrow_terminal_cuts_no_number_and_no_verdict(stream, tmp_path, monkeypatch):
    """Regression: at 40 columns, and with long names at 80, digits ended in an ellipsis and the verdicts were gone."""
    monkeypatch.setenv("COLUMNS", "40")
    results = run(EXPERIMENT, n=(16, 64), spread=(1.0, 2.0), draws=4, out=str(tmp_path), quiet=True)
    file = stream()
    print_results(results, file=file)
    assert "…" not in file.getvalue()
    verdicts = [row["verdict"] for row in results.rows]
    assert len(verdicts) == 12 and all(file.getvalue().count(word) >= verdicts.count(word) for word in set(verdicts))

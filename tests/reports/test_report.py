"""The report: it holds what the results hold, runs only what is missing, and refuses in one line."""

import dataclasses

import pytest
from matplotlib.figure import Figure

from reports import render
from reports.__main__ import main
from reports.chapter import chapter, interval
from reports.story import LONG, chosen
from rmt.experiments.cli import experiments
from rmt.experiments.run import Request, execute, prepare
from tests.experiments import toy
from tests.experiments.toy import EXPERIMENT

TOY = toy.__file__


@pytest.fixture
def told(tmp_path):
    request = Request(values={"n": (64, 128)}, draws=8, out=str(tmp_path / "store"), quiet=True)
    return chapter(execute(prepare(EXPERIMENT, request)), folder=tmp_path)


def test_a_chapter_holds_the_judged_rows_and_their_tally(told):
    assert told.name == "toy" and told.question.startswith("Toy: means of normal draws.")
    assert {row["setting"] for row in told.rows} == {"n = 64", "n = 128"}
    assert all(row["verdict"] in ("supported", "undecided", "contradicted") for row in told.rows)
    assert sum(count for _, count in told.tally) >= len(told.rows) > 0


def test_the_page_is_one_file_and_escapes_what_it_quotes(told):
    page = render.html({"A < B": [told]})
    assert "A &lt; B" in page and told.command in page
    assert "http" not in page.replace("http-equiv", "")  # nothing is loaded from elsewhere


def test_a_figure_is_embedded(told, tmp_path):
    Figure().savefig(tmp_path / "page.png")
    page = render.html({"One part": [dataclasses.replace(told, figure=tmp_path / "page.png")]})
    assert 'src="data:image/png;base64,' in page


def test_the_pdf_is_written(told, tmp_path):
    render.pdf({"One part": [told]}, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_the_command_renders_and_a_second_one_computes_nothing(tmp_path, capsys):
    store, to = str(tmp_path / "store"), str(tmp_path / "report")
    arguments = [TOY, "--draws", "8", "--out", store, "--to", to, "--quiet", "--no-pdf"]
    assert main(arguments) == 0
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert "Toy: means of normal draws." in (tmp_path / "report" / "report.html").read_text()
    assert main(arguments) == 0
    assert written == {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert capsys.readouterr().out.splitlines() == [f"{to}/report.html"] * 2


def test_every_experiment_is_told_but_the_long_ones():
    told = [name for members in chosen([]).values() for name in members]
    assert sorted(told) == sorted(set(experiments()) - set(LONG))


def test_bad_input_is_one_line(tmp_path, capsys):
    assert main(["no_such"]) == 2
    (tmp_path / "file").write_text("")
    assert main(["phase_diagram", "--to", str(tmp_path / "file" / "below")]) == 2
    assert main(["phase_diagram", "--draws", "0", "--to", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith("reports: error: ") for line in lines)


def test_a_cell():
    assert interval(None, None) == "-" and interval(1.23456, [1.0, 2.0]) == "1.235 [1, 2]"


def test_the_command_of_a_chapter_repeats_its_draws(told):
    """Regression: it left out the draws, and named experiments of one's own as if they were ours."""
    assert told.command == "python -m tests.experiments.toy --draws 8 --seed 0"


def test_a_wrong_flag_of_the_report_is_one_line(capsys):
    assert main(["--pages", "3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1

"""The command line: exit codes, one-line errors, JSON, interruption."""

import json
import os
import signal
import subprocess
import sys
import time

import jsonschema
import pytest

import rmt
from rmt.experiments.cli import main, run_experiment
from tests.experiments.document import SCHEMA
from tests.experiments.toy import EXPERIMENT

TOY = os.path.join(os.path.dirname(__file__), "toy.py")


def toy(*arguments):
    return run_experiment(EXPERIMENT, [*arguments])


@pytest.fixture
def out(tmp_path):
    return ("--out", str(tmp_path / "store"), "--quiet")


@pytest.mark.parametrize(
    "arguments, fragment",
    [
        (("--n", "0"), "--n 0: must be an integer >= 1"),
        (("--n", "x"), "argument --n: 'x': must be an integer >= 1"),
        (("--n",), "argument --n: expected at least one argument"),
        (("--spread", "-1"), "--spread -1.0: must be a finite number >= 0"),
        (("--spread=-1e-3",), "--spread -0.001: must be a finite number >= 0"),
        (("--spread", "-1e-3"), "--spread -0.001: must be a finite number >= 0"),
        (("--spread", "nan"), "--spread nan"),
        (("--model", "foo"), "--model foo: must be one of normal, flat, broken"),
        (("--draws", "0"), "--draws 0: must be an integer >= 1"),
        (("--draws", "2.5"), "'2.5': must be an integer"),
        (("--draws", "99999999999"), "--draws 99999999999: must be at most 1000000"),
        (("--scheduler", "tcp://here:1"), "--scheduler tcp://here:1: is for dask only; add --executor dask"),
        (("--seed", "-1"), "--seed -1: must be an integer from 0"),
        (("--workers", "0"), "--workers 0: must be an integer >= 1"),
        (("--executor", "magic"), "--executor magic: must be one of serial, processes, dask"),
        (("--dtype", "float16"), "--dtype float16: must be one of float32, float64"),
        (("--spectrum", "density"), "--spectrum density: toy knows none, full; choose one of them"),
        (("--shard", "3/2"), "must be i/k with 1 <= i <= k"),
        (("--memory-budget", "lots"), "must be a size above zero"),
        (("--device", "gpu"), "--device gpu: toy computes on the CPU; use --device cpu"),
        (("--nn", "3"), "unrecognized arguments: --nn 3"),
        (("--export", "rows.doc"), "must end in .csv, .parquet or .npz"),
        (("--figure", "page.gif"), "must end in .png, .svg or .pdf"),
        (("--n", "200", "--model", "flat"), "no combination of these flags has a meaning"),
    ],
)
def test_a_usage_error_is_one_line_on_stderr_and_exit_2(arguments, fragment, capsys, out):
    assert toy(*arguments, *out) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1 and fragment in printed.err and "Traceback" not in printed.err


def test_an_out_folder_below_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert toy("--out", str(tmp_path / "file" / "store")) == 2
    assert "cannot be made a folder" in capsys.readouterr().err


def test_json_obeys_the_schema_and_holds_every_row(capsys, out):
    assert toy("--n", "1", "2", "64", "--draws", "5", "--format", "json", *out) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))
    jsonschema.validate(document, SCHEMA)
    assert len(document["rows"]) == 1 + 1 + 2 + 2 + 1 + 2 - 1
    assert document["rows"][-1]["index"] == {"rank": 2}
    assert document["claims"][0]["verdict"] == "supported"


def test_the_schema_refuses_a_wrong_document(capsys, out):
    """Negative control: without it a schema that accepts everything would pass."""
    toy("--n", "64", "--format", "json", *out)
    document = json.loads(capsys.readouterr().out)
    document["rows"][0]["verdict"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_the_table_ends_with_the_plain_sentence(capsys, out):
    assert toy(*out) == 0
    assert capsys.readouterr().out.rstrip().endswith("The mean of many numbers is small.")


def test_one_draw_is_undecided_without_stderr_and_equal_draws_are_decided(capsys, out):
    toy("--n", "64", "--draws", "1", "--format", "json", *out)
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["stderr"] is None and row["verdict"] == "undecided"
    toy("--n", "64", "--draws", "1", "--spread", "0", "--format", "json", *out)
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["verdict"] == "supported"


def test_check_fails_on_a_contradiction(capsys, out, monkeypatch):
    import dataclasses

    from tests.experiments import toy as module

    def wrong(setting):
        return {"mean": dataclasses.replace(module.predict(setting)["mean"], value=9.0, band=(8.0, 10.0))}

    wrong_theory = dataclasses.replace(EXPERIMENT, predict=wrong)
    assert run_experiment(wrong_theory, ["--check", *out]) == 1
    assert run_experiment(wrong_theory, [*out]) == 0
    assert toy("--check", *out) == 0


def test_dry_run_does_nothing_and_says_what_it_would(capsys, tmp_path):
    out = ("--out", str(tmp_path / "store"))
    assert toy("--dry-run", "--format", "json", *out) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["tasks"]) == 8 and not any(task["stored"] for task in document["tasks"])
    assert list((tmp_path / "store").iterdir()) == []
    assert toy("--dry-run", *out) == 0
    assert "8 blocks, 8 of them not stored yet" in " ".join(capsys.readouterr().out.split())


def test_a_failed_block_is_said_kept_apart_and_retried(capsys, tmp_path, monkeypatch):
    out = ("--out", str(tmp_path), "--quiet", "--format", "json")
    monkeypatch.setenv("TOY_FAIL_DRAW", "5")
    assert toy("--n", "16", "--model", "broken", *out) == 3
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert "draws 4 to 7: RuntimeError: draw 5 is broken" in printed.err
    assert document["rows"][0]["draws"] == 12 and "draw 5 is broken" in document["provenance"]["failures"][0]
    monkeypatch.setenv("TOY_FAIL_DRAW", "none")
    assert toy("--n", "16", "--model", "broken", *out) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["draws"] == 16


def hear_interrupts():
    """A suite started in the background inherits an ignored SIGINT; a terminal's command does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_ctrl_c_keeps_what_is_done_leaves_no_orphan_and_says_how_to_resume(tmp_path, executor):
    """SIGINT to the whole process group, as a terminal sends it."""
    arguments = ["--n", "16", "--draws", "40", "--executor", executor, "--workers", "2", "--format", "json"]
    run = subprocess.Popen(
        [sys.executable, TOY, *arguments, "--out", str(tmp_path)],
        env={**os.environ, "TOY_SLEEP": "0.15"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )
    deadline = time.monotonic() + 30
    # a whole block, not one that is being written
    while not list(tmp_path.glob("toy/[!.]*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    output, messages = run.communicate(timeout=20)
    assert run.returncode == 130
    assert "interrupted; resume with: " in messages and "--draws 40" in messages and "Traceback" not in messages
    document = json.loads(output)
    jsonschema.validate(document, SCHEMA)
    assert 4 <= document["rows"][0]["draws"] < 40
    for _ in range(100):
        try:
            os.killpg(run.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("a worker outlived the run")


def test_the_list_names_the_experiments_and_an_unknown_one_is_refused(capsys):
    assert main([]) == 0
    assert "width_collapse" in capsys.readouterr().out
    assert main(["nonsense"]) == 2
    assert "no such experiment" in capsys.readouterr().err


def test_an_experiment_of_ones_own_runs_from_its_file(tmp_path, capsys):
    assert main([TOY, "--n", "16", "--draws", "4", "--format", "json", "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["experiment"] == "toy"


def run_main(arguments, *, reader):
    """The command before a reader that takes that many bytes of its output and leaves: (exit code, stderr)."""
    call = [sys.executable, "-m", "simulations", *arguments]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as command:
        command.stdout.read(reader)
        command.stdout.close()
        messages = command.stderr.read().decode()
    return command.returncode, messages


@pytest.mark.parametrize(
    "arguments", [(), ("cite", "width_collapse"), ("predict", "--n", "64"), ("doctor",), (TOY, "--help")]
)
def test_a_reader_that_leaves_early_is_no_error(arguments):
    """`rmt ... | head -1`: regression, a traceback and exit 1."""
    assert run_main(arguments, reader=1) == (0, "")


@pytest.mark.parametrize("form", ["table", "json"])
def test_files_are_written_although_nobody_reads_the_table(tmp_path, form):
    """Regression: the export was skipped in silence."""
    table = tmp_path / "rows.csv"
    arguments = (TOY, "--n", "16", "--draws", "4", "--quiet", "--format", form, "--out", str(tmp_path))
    code, messages = run_main((*arguments, "--export", str(table)), reader=0)
    assert code == 0 and "Traceback" not in messages and table.exists()
    assert run_main((*arguments, "--dry-run"), reader=0) == (0, "")


def test_output_files_that_cannot_be_are_refused_before_the_run(tmp_path, capsys, out):
    for flag, name in (("--figure", "page.png"), ("--export", "rows.csv")):
        (tmp_path / name).mkdir()
        assert toy(flag, str(tmp_path / name), *out) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1 and "is a folder; name a file" in printed.err


def test_a_file_that_cannot_be_written_after_all_is_said_in_one_line(tmp_path, capsys, out, monkeypatch):
    def full(results, path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("rmt.experiments.results.Results.to_csv", full)
    assert toy("--n", "16", "--export", str(tmp_path / "rows.csv"), *out) == 3
    printed = capsys.readouterr()
    assert "mean" in printed.out and printed.err.count("\n") == 1 and "No space left on device" in printed.err


def test_a_block_that_cannot_be_kept_is_said_and_its_draws_are_used(tmp_path, capsys):
    """A file lies where the store wants its folder: the rows are whole, the exit code says that blocks are not kept."""
    (tmp_path / "toy").write_text("")
    assert toy("--n", "16", "--draws", "4", "--format", "json", "--quiet", "--out", str(tmp_path)) == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out)["rows"][0]["draws"] == 4
    assert "failed: n = 16, draws 0 to 3: FileExistsError" in printed.err


def test_ctrl_c_while_the_table_is_made_names_the_command_that_resumes(capsys, out, monkeypatch):
    def stop(results):
        raise KeyboardInterrupt

    monkeypatch.setattr("rmt.experiments.results.Results.document", stop)
    assert toy("--n", "16", "--format", "json", *out) == 130
    assert "interrupted; resume with: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, fragment",
    [
        ("def f(:", "invalid syntax"),
        ("x = 1\ny = 1 / 0", "ZeroDivisionError: division by zero; mine.py, line 2"),
        ("raise SystemExit(5)", "SystemExit: 5; mine.py, line 1"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("x = 1", "must end in EXPERIMENT = Experiment(...)"),
    ],
)
def test_a_file_of_ones_own_that_is_broken_is_one_line_and_exit_2(tmp_path, capsys, text, fragment):
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert main([str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and fragment in printed.err


@pytest.mark.parametrize(
    "command", [("predict",), ("predict", "--n", "x"), ("doctor", "--x"), ("../x",), ("cite", "x")]
)
def test_every_command_complains_in_one_line(command, capsys):
    assert main([*command]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rmt {rmt.__version__}\n"

"""The command line called as a user would, in this process."""

from treesim_dask.cli import main


def run(capsys, *argv):
    """Run a command and return its exit code, standard output and standard error."""
    try:
        code = main([str(part) for part in argv])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def assert_refused(result, *words):
    """Expect exit code 2, no result, and one line that holds the words."""
    code, out, err = result
    assert code == 2, (code, out, err)
    assert out == ""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    for word in words:
        assert word in err, (word, err)

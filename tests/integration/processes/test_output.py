"""A reader that follows the output of one run."""

from pathlib import Path

from orchestrator.processes.output import RunOutput


def test_a_reader_continues_in_the_next_file_after_a_rotation(tmp_path: Path) -> None:
    present = tmp_path / "stdout.jsonl"
    present.write_bytes(b"one\n")
    output = RunOutput(tmp_path)
    assert output.lines_from(0) == (b"one\n", 4)

    with present.open("ab") as file:
        file.write(b"two\n")
    present.rename(tmp_path / "stdout.0.jsonl")
    present.write_bytes(b"three\n")

    assert output.lines_from(4) == (b"two\n", 8)
    assert output.lines_from(8) == (b"three\n", 14)
    assert output.lines_from(14) == (b"", 14)
    assert output.lines_from(0) == (b"one\ntwo\n", 8)


def test_a_reader_returns_nothing_until_there_is_a_complete_line(tmp_path: Path) -> None:
    output = RunOutput(tmp_path)
    assert output.lines_from(0) == (b"", 0)
    (tmp_path / "stdout.jsonl").write_bytes(b"half")
    assert output.lines_from(0) == (b"", 0)
    with (tmp_path / "stdout.jsonl").open("ab") as file:
        file.write(b" a line\n")
    assert output.lines_from(0) == (b"half a line\n", 12)

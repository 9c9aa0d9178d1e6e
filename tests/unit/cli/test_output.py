"""What reaches a terminal, a pipe, and nobody."""

import asyncio
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.cli.output import Output, one_line, printable


def printed(*rows: list[str]) -> list[str]:
    out = io.StringIO()
    Output(out, io.StringIO()).table(["A", "LONGER"], rows)
    return out.getvalue().splitlines()


def test_a_table_lines_its_columns_up_and_pads_no_line_at_its_end() -> None:
    assert printed(["wide cell", "x"], ["y", ""]) == ["A          LONGER", "wide cell  x", "y"]


@pytest.mark.parametrize("wide", ["注文", "\U0001f600\U0001f600", "abcd", "e\u0301tre"])
def test_what_takes_more_or_fewer_columns_than_it_has_characters_is_lined_up(wide: str) -> None:
    assert printed([wide, "x"], ["y", "z"])[1:] == [f"{wide}  x", "y     z"]


def test_a_cell_cannot_start_a_line_or_move_the_cursor() -> None:
    assert printed(["two\nlines", "\x1b[2J"])[1:] == ["two lines  \\x1b[2J"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\tb\nc", "a\tb\nc"), ("\x1b[31mred", "\\x1b[31mred"), ("über\u202e", "über\\u202e"), ("\r", "\\r")],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\U0001f469\u200d\U0001f4bb",
        "\u2764\ufe0f\u200d\U0001f525",
    ],
)
def test_what_joins_letters_or_emoji_stays_and_takes_no_column(text: str) -> None:
    assert printable(text) == text
    assert printable(f"{text}\x1b") == f"{text}\\x1b"
    assert len({line.index("x") - len(line) for line in printed(["a" * 30, "x"], [text, "x"])[1:]}) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay\u200dpal", "pay\\u200dpal"),
        ("\u0645\u200c", "\u0645\\u200c"),
        ("\u200d\U0001f4bb", "\\u200d\U0001f4bb"),
        ("\u0645\u200c\u200c\u0645", "\u0645\\u200c\\u200c\u0645"),
        ("\u05d0\u200d\u05d0", "\u05d0\\u200d\u05d0"),
        ("\u0645\u200f\u0645", "\u0645\\u200f\u0645"),
    ],
)
def test_a_joiner_that_joins_nothing_is_made_visible(text: str, shown: str) -> None:
    assert printable(text) == shown


HOSTILE = "a\x1b[31m\x1b]0;title\x07\r\nINJECTED\x9b2J\u202e\u2028\x7f\tz"


def test_no_way_to_print_lets_a_text_through_that_a_terminal_obeys_or_a_second_line() -> None:
    out, err = io.StringIO(), io.StringIO()
    output = Output(out, err)
    output.line(HOSTILE)
    output.live(HOSTILE)
    output.note(HOSTILE)
    output.table(["A", HOSTILE], [[HOSTILE, HOSTILE]])
    assert len(out.getvalue().splitlines()) == 4
    assert len(err.getvalue().splitlines()) == 1
    output.text(HOSTILE)
    output.writing(HOSTILE)
    for written in (out.getvalue(), err.getvalue()):
        assert all(c.isprintable() or c in "\n\t" for c in written)


@pytest.mark.parametrize("indent", [True, False])
def test_json_holds_what_a_terminal_obeys_as_escapes(indent: bool) -> None:
    out = io.StringIO()
    Output(out, None, as_json=True).data({HOSTILE: [HOSTILE, "über\u3000\U0001f600"]}, indent=indent)
    assert all(c.isprintable() or c in "\n\u3000" for c in out.getvalue())
    assert json.loads(out.getvalue()) == {HOSTILE: [HOSTILE, "über\u3000\U0001f600"]}


@pytest.mark.parametrize("number", [10**20, -(2**64), 10**4299, 2**63])
def test_whole_numbers_stay_exact_in_json_up_to_4300_digits(number: int) -> None:
    out = io.StringIO()
    Output(out, None, as_json=True).data({"wei": [number], "1": 0.5}, indent=False)
    assert json.loads(out.getvalue()) == {"wei": [number], "1": 0.5}


def test_a_line_is_cut_to_what_is_allowed() -> None:
    assert one_line("  one \n two  ") == "one two"
    assert one_line("12345", 5) == "12345"
    assert one_line("123456", 5) == "1234…"


def test_json_goes_out_and_what_is_live_stands_beside_it() -> None:
    out, err = io.StringIO(), io.StringIO()
    output = Output(out, err, as_json=True)
    output.live("step 1")
    output.data({"ok": True}, indent=False)
    assert (out.getvalue(), err.getvalue()) == ('{"ok":true}\n', "step 1\n")


def test_a_terminal_that_cannot_show_a_character_shows_its_escape() -> None:
    raw = io.BytesIO()
    terminal = io.TextIOWrapper(raw, encoding="ascii")
    Output(terminal, io.StringIO()).line("naïve…")
    assert raw.getvalue() == b"na\\xefve\\u2026\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str) -> None:
    raw, value = io.BytesIO(), {"naïve…": "😀\u202e\x7f\x1b"}
    output = Output(io.TextIOWrapper(raw, encoding=encoding), io.StringIO(), as_json=True)
    output.data(value)
    output.json_text(json.dumps(value, ensure_ascii=False))
    said = raw.getvalue().decode(encoding)
    assert [json.loads(each) for each in (said[: said.index("}") + 1], said[said.rindex("{") :])] == [value, value]
    assert "\u202e" not in said


def test_one_long_cell_widens_no_other_row_and_is_cut_unless_all_is_wanted() -> None:
    out = io.StringIO()
    Output(out, None).table(["A", "B", "C"], [["x" * 10_000, "y", "z" * 300], ["x", "y", ""]])
    _, long, short = out.getvalue().splitlines()
    assert long == f"{'x' * 199}…  y  {'z' * 300}"
    assert short == f"x{' ' * 61}y"
    Output(out := io.StringIO(), None).table(["A", "B"], [["x" * 10_000, "y"]], is_whole=True)
    assert out.getvalue().endswith(f"{'x' * 10_000}  y\n")


def test_a_reader_that_has_gone_is_noticed_and_spared() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        output = Output(pipe, io.StringIO())
        assert not output.is_gone
        output.line("anybody?")
        output.line("nobody")
        assert output.is_gone


def test_given_a_full_disk_then_the_answer_is_not_passed_off_as_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    asyncio.run(open_store(url).close())
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["runs", "--store", url]) == 2
    assert capsys.readouterr().err == "steptrail: the answer could not be written: No space left on device\n"


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["runs", "--help"]])
def test_help_and_version_end_like_any_answer_where_nobody_takes_them(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as gone, open("/dev/full", "w", encoding="utf-8") as full:
        for stream, code in ((full, 2), (gone, 0)):
            monkeypatch.setattr(sys, "stdout", stream)
            assert main(words) == code
    assert capsys.readouterr().err == "steptrail: the answer could not be written: No space left on device\n"


def test_a_process_without_standard_output_writes_nowhere() -> None:
    output = Output(None, None)
    output.line("anybody?")
    output.note("nobody")
    assert output.failure is None


def test_main_can_be_called_and_returns_its_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["steptrail", "runs", "--store", "sqlite:///none.db"])
    assert main() == 2
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: steptrail ")
    assert err.startswith("steptrail: there is no store ")


def test_ctrl_c_before_a_command_is_known_ends_like_one_after_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("steptrail.interfaces.cli.main._commands", interrupted)
    assert main(["runs"]) == 130
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_terminal_that_wants_no_json_is_shown_what_is_being_written() -> None:
    assert Output(Terminal(), None).shows_writing
    assert not Output(Terminal(), None, as_json=True).shows_writing
    assert not Output(io.StringIO(), Terminal()).shows_writing
    assert not Output(None, None).shows_writing


@pytest.mark.parametrize("show", [printable, one_line])
def test_what_can_be_printed_is_not_looked_at_letter_by_letter(show: Callable[[str], str]) -> None:
    calls, text = 0, "a line\n\tand another ☕\n" * 1000

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        shown = show(text)
    finally:
        sys.setprofile(None)
    assert shown.split() == text.split()
    assert calls < 5

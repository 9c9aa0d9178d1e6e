"""`steptrail inspect`: what it needs, and what it refuses."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from steptrail import Steptrail
from steptrail.errors import MissingExtra
from steptrail.inspector import Access, inspector
from steptrail.interfaces.cli.main import main


async def test_without_its_extra_the_inspector_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def authorize(request: object) -> Access:
        raise AssertionError(request)

    monkeypatch.setitem(sys.modules, "jinja2", None)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(MissingExtra, match=r"pip install 'steptrail\[inspector\]'"):
            inspector(trail, authorize=authorize)


def test_without_its_extra_the_command_says_what_to_install(
    inspected: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["inspect", "--store", f"sqlite:///{inspected}"]) == 2
    assert "pip install 'steptrail[inspector]'" in capsys.readouterr().err


def test_a_port_that_is_taken_and_a_store_that_is_not_there_are_refused(
    inspected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["inspect", "--store", f"sqlite:///{inspected}", "--port", port]) == 2
    assert f"cannot serve 127.0.0.1 on port {port}: " in capsys.readouterr().err
    assert main(["inspect", "--store", f"sqlite:///{tmp_path / 'none.db'}"]) == 2
    assert not (tmp_path / "none.db").exists()
    assert main(["inspect", "--port", "65536"]) == 2
    assert "'65536' is not a port" in capsys.readouterr().err


def test_a_server_that_is_asked_to_end_ends_the_lines_of_open_pages_in_order(inspected: Path) -> None:
    command = [sys.executable, "-m", "steptrail", "inspect", "--store", f"sqlite:///{inspected}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            found = re.search(r"http://\S+/", served.stdout.readline())
            assert found is not None
            with httpx.stream("GET", f"{found[0]}live", timeout=30) as line:
                told = line.iter_lines()
                assert next(told) == "event: beat"
                served.send_signal(signal.SIGTERM)
                list(told)  # raises when the line breaks off
            assert served.stderr is not None
            assert "ERROR" not in served.stderr.read()
        finally:
            served.kill()

"""The states that a file system may leave when the power is cut, from the writes and syncs of a real program.

`record` runs the program under strace. `states` then goes through what it did: what was synced is there; of what was
written since, anything may be: all, none, a beginning, a single write, half of one. A folder's entries count as written
until the folder itself is synced. Each distinct state comes once, with what the program had said by then.
"""

import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

_CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,unlink,unlinkat"
_WHOLE = 1 << 22
_SECTOR, _BLOCK = 512, 4096

_LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += +(-?\d+)")
_CUT_OFF = re.compile(r"^(\d+) +(\w+\(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_FILE = re.compile(r"^\d+<([^>]*)>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class Op(NamedTuple):
    """One thing the program did to a file of the folder, or said."""

    kind: Literal["create", "write", "truncate", "unlink", "sync", "sync-folder", "say"]
    name: str = ""
    offset: int = 0
    data: bytes = b""


class State(NamedTuple):
    """What lies in the folder after a power cut, and what the program had said before."""

    files: Mapping[str, bytes]
    said: tuple[str, ...]


def record(program: Sequence[str], folder: Path, *, ignore: Sequence[str] = ("-shm",)) -> list[Op]:
    """Run a program and return what it did to the files right in `folder`, and the lines it printed.

    Files whose names end with one of `ignore` are left out: memory that processes share is in no file after a cut.
    """
    trace = folder.with_name(folder.name + ".trace")
    command = ["strace", "-f", "-y", "-xx", "-s", str(_WHOLE), "-e", f"trace={_CALLS}", "-o", str(trace), *program]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    ops = [op for op in _ops(trace, folder.resolve()) if not op.name.endswith(tuple(ignore))]
    trace.unlink()
    return ops


def _ops(trace: Path, folder: Path) -> Iterator[Op]:
    begun: dict[str, str] = {}
    known: set[str] = set()
    with trace.open(encoding="ascii") as lines:
        for line in lines:
            if cut_off := _CUT_OFF.match(line):
                begun[cut_off[1]] = cut_off[2]
                continue
            resumed = _RESUMED.match(line)
            whole = f"{resumed[1]} {begun.pop(resumed[1])}{resumed[2]}" if resumed else line
            done = _LINE.match(whole)
            if done is None or int(done[4]) < 0:
                continue
            op = _op(done[2], done[3], int(done[4]), folder)
            if op is None or (op.kind == "create" and op.name in known):
                continue
            known.add(op.name) if op.kind == "create" else known.discard(op.name) if op.kind == "unlink" else None
            yield op


def _op(call: str, said: str, result: int, folder: Path) -> Op | None:
    if call in {"openat", "unlink", "unlinkat"}:
        name = _name(_bytes(said).decode(), folder)
        if name is None or (call == "openat" and "O_CREAT" not in said):
            return None
        return Op("create" if call == "openat" else "unlink", name)
    if call == "write" and said.startswith("1<"):
        return Op("say", data=_bytes(said)[:result])
    file = _FILE.match(said)
    path = _unescaped(file[1]).decode() if file else ""
    if call in {"fsync", "fdatasync"} and path == str(folder):
        return Op("sync-folder")
    name = _name(path, folder)
    if name is None:
        return None
    if call in {"fsync", "fdatasync"}:
        return Op("sync", name)
    last = int(said.rpartition(",")[2])
    if call == "ftruncate":
        return Op("truncate", name, last)
    if call == "pwrite64":
        return Op("write", name, last, _bytes(said)[:result])
    raise AssertionError(f"{call} to {name} is not understood")


def _name(path: str, folder: Path) -> str | None:
    parent, _, name = path.removesuffix(" (deleted)").rpartition("/")
    return name if parent == str(folder) else None


def _bytes(said: str) -> bytes:
    found = _TEXT.search(said)
    return _unescaped(found[1]) if found else b""


def _unescaped(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()


@dataclass
class _File:
    synced: bytes = b""
    written: list[Op] = field(default_factory=list[Op])


def states(ops: Sequence[Op], *, thorough: bool = False, seed: int = 1) -> Iterator[State]:
    """Yield each distinct state that a cut after any of the ops may leave. `thorough` samples nothing."""
    draw = random.Random(seed)  # noqa: S311 - what is drawn must be the same again
    files: dict[str, _File] = {}
    entries: dict[str, _File] = {}
    moved: list[tuple[str, _File | None]] = []
    said: list[str] = []
    seen: set[tuple[bytes, int]] = set()
    for op in (*ops, Op("say")):
        for state in _left(entries, moved, draw, thorough):
            mark = sha256()
            for name, data in sorted(state.items()):
                mark.update(f"{name} {len(data)} ".encode() + data)
            key = mark.digest(), len(said)
            if key not in seen:
                seen.add(key)
                yield State(state, tuple(said))
        match op.kind:
            case "say":
                said += op.data.decode().splitlines()
            case "create":
                file = files[op.name] = _File()
                moved.append((op.name, file))
            case "unlink":
                files.pop(op.name, None)
                moved.append((op.name, None))
            case "sync":
                file = files[op.name]
                file.synced, file.written = _applied(file.synced, file.written), []
            case "sync-folder":
                _move(entries, moved)
                moved = []
            case _:
                files[op.name].written.append(op)


def _left(
    entries: Mapping[str, _File], moved: Sequence[tuple[str, _File | None]], draw: random.Random, thorough: bool
) -> Iterator[dict[str, bytes]]:
    for count in range(len(moved), -1, -1) if thorough else sorted({0, max(0, len(moved) - 1), len(moved)}):
        there = dict(entries)
        _move(there, moved[:count])
        names = sorted(there)
        choices = [list(_contents(there[name], draw, thorough)) for name in names]
        for contents in product(*choices):
            yield dict(zip(names, contents, strict=True))


def _move(entries: dict[str, _File], moved: Sequence[tuple[str, _File | None]]) -> None:
    for name, file in moved:
        if file is None:
            entries.pop(name, None)
        else:
            entries[name] = file


def _contents(file: _File, draw: random.Random, thorough: bool) -> Iterator[bytes]:
    written, count = file.written, len(file.written)
    yield file.synced
    if not written:
        return
    some = range(count) if thorough or count < 4 else sorted({0, count - 1, *draw.sample(range(count), 2)})
    for i in some:
        yield _applied(file.synced, written[: i + 1])
        yield _applied(file.synced, [written[i]])
        yield _applied(file.synced, [*written[:i], *written[i + 1 :]])
        for part in _torn(written[i]):
            yield _applied(file.synced, [*written[:i], part])


def _torn(op: Op) -> Iterator[Op]:
    if op.kind == "write" and len(op.data) > _SECTOR:
        for size in (_SECTOR, _BLOCK):
            if size < len(op.data):
                yield op._replace(data=op.data[:size])
                yield op._replace(offset=op.offset + size, data=op.data[size:])


def _applied(data: bytes, ops: Sequence[Op]) -> bytes:
    content = bytearray(data)
    for op in ops:
        if op.kind == "truncate":
            content[op.offset :] = bytes(max(0, op.offset - len(content)))
            continue
        content += bytes(max(0, op.offset - len(content)))
        content[op.offset : op.offset + len(op.data)] = op.data
    return bytes(content)


def build(state: State, folder: Path) -> None:
    """Make the folder what the state says, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in state.files.items():
        (folder / name).write_bytes(data)

"""Break the code in small ways and see which of them no test notices.

python -m scripts.mutants [--number 300] [--seed 1] [--paths domain/agent runtime ...]
python -m scripts.mutants --only ID             one again, whatever the seed; with --show it is printed and not tried
python -m scripts.mutants --tree FOLDER         another checkout, such as a worktree of an older commit

Nothing is changed in the checkout: tests run in copies of it, which are thrown away. Which tests run which line is
found out once, in `.mutants/`, and again when a file has changed since; that takes as long as the tests do. Each change
is then tried against the tests that run its line, the fastest first. The same seed chooses the same changes, also in
another commit as far as they exist there. A survivor is a change that no test noticed: a hole, or code that means the
same.
"""

import argparse
import difflib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData

from scripts.mutant_sites import Site, is_alive, mutated, sites

_ROOT = Path(__file__).parents[1]
_PATHS = ("domain/agent", "runtime", "projections", "infrastructure/store")
_TESTS = (
    *("unit", "acceptance", "runner", "contracts", "golden", "properties", "processes"),
    *(f"integration/{name}" for name in ("broadcast", "replay", "runtime", "store", "trail")),
)
_KEPT = _ROOT / ".mutants"
_COVERAGE = """[run]
core = ctrace
parallel = true
sigterm = true
data_file = {folder}/lines
context = ${{STEPTRAIL_MUTANTS_TEST}}
source =
"""
_SURVIVED, _KILLED, _TIMEOUT, _UNSEEN = "survived", "killed", "timeout", "no test"


@dataclass
class _Map:
    """Which tests run which line of which file, and how long they take. Line 0 stands for any line of the file."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[int]]]

    def tests_of(self, site: Site, most_seconds: float) -> list[str]:
        """Return the tests that run these lines, fastest first, one at least and then as many as the time allows."""
        names, of_file = list(self.seconds), self.lines.get(site.path, {})
        found = {test for line in range(site.line, site.last_line + 1) for test in of_file.get(line, ())}
        if not found and site.at_import:
            # Whoever runs anything of the module may notice.
            found = set(of_file.get(0, ()))
        chosen, spent = list[str](), 0.0
        for name in sorted((names[test] for test in found), key=lambda name: (self.seconds[name], name)):
            spent += self.seconds[name]
            if chosen and spent > most_seconds:
                break
            chosen.append(name)
        return chosen


@dataclass
class _Result:
    """What became of one change."""

    site: Site
    status: str
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


@dataclass
class _Sandbox:
    """A copy of the tree in which tests run, and files may be broken."""

    tree: Path
    folder: Path
    clock: int = field(default_factory=lambda: int(time.time()))

    @property
    def copy(self) -> Path:
        return self.folder / "tree"

    def make(self) -> None:
        self.copy.mkdir(parents=True)
        for name in _files(self.tree):
            target = self.copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.tree / name, target, follow_symlinks=False)
        plugin = self.folder / "plugin"
        plugin.mkdir()
        shutil.copy(Path(__file__).with_name("mutant_plugin.py"), plugin)

    def write(self, path: str, text: str) -> None:
        """Replace a file. Its time is new to the second, since compiled code is looked up by it."""
        self.clock += 2
        (self.copy / path).write_text(text, encoding="utf-8")
        os.utime(self.copy / path, (self.clock, self.clock))

    def pytest(self, arguments: Iterable[str], *, most_seconds: float | None = None) -> int | None:
        """Run tests and return how pytest ended, or None when the time was up."""
        paths = [str(self.copy / "src"), str(self.folder / "plugin")]
        ours = ("COV", "PYTEST", "STEPTRAIL")
        known = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        command = [sys.executable, "-m", "pytest", "-p", "mutant_plugin", "-p", "no:cacheprovider", "-q", *arguments]
        settings = {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "STEPTRAIL_MUTANTS": str(self.folder),
        }
        with (self.folder / "output").open("wb") as output:
            running = subprocess.Popen(
                command, cwd=self.copy, env=known | settings, stdout=output, stderr=output, start_new_session=True
            )
            try:
                return running.wait(most_seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                # What the tests left running in their group ends with them.
                for end in (signal.SIGTERM, signal.SIGKILL):
                    _signal(running, end)
                running.wait()


def _signal(running: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(running.pid, number)
        running.wait(5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass


def _files(tree: Path) -> list[str]:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout
    return [name for name in sorted(set(listed.split("\0"))) if name and os.path.lexists(tree / name)]


def _digest(tree: Path, given: argparse.Namespace) -> str:
    """Return what the map depends on: every file that is Python or is read by tests, and what was asked for."""
    hashed = hashlib.sha256(json.dumps([given.paths, given.tests]).encode())
    for name in _files(tree):
        if name.endswith((".py", ".toml", ".jsonl")) and (tree / name).is_file():
            hashed.update(f"{name}\0".encode() + (tree / name).read_bytes())
    return hashed.hexdigest()[:16]


def _map(tree: Path, given: argparse.Namespace, scratch: Path) -> _Map:
    """Return the map of the tree as it is, made now if there is none."""
    kept = _KEPT / f"map-{_digest(tree, given)}.json"
    if not kept.exists():
        box = _Sandbox(tree, scratch / "map")
        box.make()
        sources = "".join(f"    {(box.copy / path).resolve()}\n" for path in given.paths)
        (box.folder / "coveragerc").write_text(_COVERAGE.format(folder=box.folder) + sources, encoding="utf-8")
        tests = [f"tests/{name}" for name in given.tests if (box.copy / "tests" / name).exists()]
        print(f"running {' '.join(tests)} once, to see which test runs which line", flush=True)
        started = time.monotonic()
        ended = box.pytest([*tests, "-n", str(given.workers), "--hypothesis-seed=0"])
        told = box.folder / "tests.json"
        if ended not in (0, 1) or not told.exists():
            raise SystemExit((box.folder / "output").read_text(encoding="utf-8", errors="replace")[-4000:])
        times = json.loads(told.read_text(encoding="utf-8"))
        for name in sorted(set(times["failed"])):
            print(f"left out, since it fails without any change: {name}")
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(asdict(_gathered(box, times))), encoding="utf-8")
        print(f"the map took {time.monotonic() - started:.0f} seconds: {kept}", flush=True)
    read = json.loads(kept.read_text(encoding="utf-8"))
    lines = {path: {int(line): tests for line, tests in of.items()} for path, of in read["lines"].items()}
    return _Map(read["seconds"], lines)


def _gathered(box: _Sandbox, times: dict[str, dict[str, float]]) -> _Map:
    good = {name: seconds for name, seconds in times["seconds"].items() if name not in times["failed"]}
    numbers = {name: number for number, name in enumerate(good)}
    found: defaultdict[str, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for file in box.folder.glob("lines.*"):
        data = CoverageData(str(file))
        data.read()
        for measured in data.measured_files():
            of_file = found[os.path.relpath(os.path.realpath(measured), box.copy.resolve())]
            for line, contexts in data.contexts_by_lineno(measured).items():
                tests = {numbers[context] for context in contexts if context in numbers}
                of_file[line] |= tests
                of_file[0] |= tests
    return _Map(good, {path: {line: sorted(each) for line, each in of.items()} for path, of in found.items()})


def _candidates(tree: Path, paths: Iterable[str]) -> Iterator[Site]:
    for path in paths:
        whole = tree / path
        for file in [whole] if whole.is_file() else sorted(whole.rglob("*.py")):
            yield from sites(str(file.relative_to(tree)), file.read_text(encoding="utf-8"))


def _chosen(tree: Path, given: argparse.Namespace) -> list[Site]:
    """Return the changes to try. Seed and id alone give each its place, so another commit's choice is much the same."""
    found = list(_candidates(tree, given.paths))
    if given.only:
        chosen = [site for site in found if site.id in given.only]
        if missing := set(given.only) - {site.id for site in chosen}:
            raise SystemExit(f"no such change in {', '.join(given.paths)}: {', '.join(sorted(missing))}")
        return chosen
    chosen = list[Site]()
    for site in sorted(found, key=lambda site: hashlib.sha256(f"{given.seed} {site.id}".encode()).digest()):
        if len(chosen) == given.number:
            break
        if is_alive((tree / site.path).read_text(encoding="utf-8"), site):
            chosen.append(site)
    return chosen


def _try(box: _Sandbox, site: Site, known: _Map, most_seconds: float) -> _Result:
    tests = known.tests_of(site, most_seconds)
    if not tests:
        return _Result(site, _UNSEEN)
    source = (box.tree / site.path).read_text(encoding="utf-8")
    chosen = box.folder / "chosen"
    # File by file, or pytest would set up again and again what the tests of a file share.
    files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
    ordered = sorted(tests, key=lambda name: files.index(name.partition("::")[0]))
    chosen.write_text("\n".join(ordered), encoding="utf-8")
    (box.folder / "tests.json").unlink(missing_ok=True)
    expected = sum(known.seconds[name] for name in tests)
    started = time.monotonic()
    box.write(site.path, mutated(source, site))
    try:
        ended = box.pytest(["-x", "--hypothesis-seed=0", f"@{chosen}"], most_seconds=60 + 6 * expected)
    finally:
        box.write(site.path, source)
    took = time.monotonic() - started
    if ended is None:
        return _Result(site, _TIMEOUT, tests=len(tests), seconds=took)
    if ended == 0:
        return _Result(site, _SURVIVED, tests=len(tests), seconds=took)
    told = box.folder / "tests.json"
    failed: list[str] = json.loads(told.read_text(encoding="utf-8"))["failed"] if told.exists() else []
    return _Result(site, _KILLED, by=failed[0] if failed else "the import", tests=len(tests), seconds=took)


def _difference(tree: Path, site: Site) -> str:
    source = (tree / site.path).read_text(encoding="utf-8")
    old, new = source.splitlines(), mutated(source, site).splitlines()
    lines = list(difflib.unified_diff(old, new, site.path, f"{site.path} {site.id}", lineterm="", n=1))
    return "\n".join(lines)


def _table(results: Sequence[_Result]) -> str:
    by_folder: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in results:
        for name in (str(Path(each.site.path).parent), "all"):
            by_folder[name][each.status] += 1
    lines = [f"{'folder':34} {'tried':>6} {'killed':>7} {'lived':>6} {'no test':>8} {'rate':>6}"]
    for name in sorted(by_folder, key=lambda name: (name == "all", name)):
        counted = by_folder[name]
        tried, killed = counted.total(), counted[_KILLED] + counted[_TIMEOUT]
        lived, unseen = counted[_SURVIVED], counted[_UNSEEN]
        lines.append(f"{name:34} {tried:6} {killed:7} {lived:6} {unseen:8} {killed / tried:6.1%}")
    return "\n".join(lines)


def _written(tree: Path, results: Sequence[_Result], out: Path) -> None:
    rows = [asdict(each) for each in results]
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    lived = [each for each in results if each.status in (_SURVIVED, _UNSEEN)]
    told = [f"{each.site.id} {each.status}, {each.site.operator}\n{_difference(tree, each.site)}\n" for each in lived]
    out.with_suffix(".txt").write_text("\n".join([_table(results), "", *told]), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Try the changes and write what became of them. 0 whatever it is: each survivor wants a person's judgement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=300, help="how many changes (300)")
    parser.add_argument("--seed", type=int, default=1, help="which of all changes are tried (1)")
    parser.add_argument("--paths", nargs="+", default=_PATHS, help=f"what is broken ({' '.join(_PATHS)})")
    parser.add_argument("--tests", nargs="+", default=_TESTS, help="folders of tests/ that may notice")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these changes, whatever the seed says")
    parser.add_argument("--tree", type=Path, default=_ROOT, help="the checkout to look at (this one)")
    parser.add_argument("--workers", type=int, default=2, help="how many at once (2)")
    parser.add_argument("--seconds", type=float, default=60, help="how much time of tests one change is worth (60)")
    parser.add_argument("--show", action="store_true", help="only print what would be tried")
    given = parser.parse_args(arguments)
    tree = given.tree.resolve()
    chosen = _chosen(tree, given)
    if given.show:
        print("\n".join(f"{site.id}\n{_difference(tree, site)}\n" for site in chosen))
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as scratch:
        known = _map(tree, given, Path(scratch))
        boxes = SimpleQueue[_Sandbox]()
        for number in range(given.workers):
            box = _Sandbox(tree, Path(scratch) / str(number))
            box.make()
            boxes.put(box)

        def tried(site: Site) -> _Result:
            box = boxes.get()
            try:
                return _try(box, site, known, given.seconds)
            finally:
                boxes.put(box)

        results, out = (
            list[_Result](),
            _KEPT / (f"{tree.name}-only" if given.only else f"{tree.name}-seed-{given.seed}"),
        )
        with ThreadPoolExecutor(given.workers) as pool:
            for result in pool.map(tried, chosen):
                results.append(result)
                site, count = result.site, f"{len(results)}/{len(chosen)}"
                print(f"{count:>8} {site.id} {result.status:9} {site.path}:{site.line} {site.operator}  {result.by}")
                sys.stdout.flush()
                _written(tree, results, out)
    print(f"\n{out.with_suffix('.txt').read_text(encoding='utf-8')}\nalso in {out}.txt and .json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The demo: agents that are killed with SIGKILL, go on where they were, and say why they stopped.

`make demo`, or `python examples/demo/demo.py [--seed N]`. The work happens in `worker.py`, a process of its own. This
file starts it, kills it, starts it again, and checks the log against the ledger that the tools themselves keep. Every
figure at the end comes from the log, the ledger or a tool's result, none from a model's text.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from folder import Folder
from model import ModelKind, available
from proofs import Moment, Proof, nothing_twice, of_the_limit, of_the_order, of_the_questions
from reader import FILES, LIMIT, ROOT
from steptrail import Steptrail
from supervisor import Worker, WorkerFailed

__all__ = ["main"]


def moment(folder: Folder, session: str) -> Moment:
    """Read the log of a session, and the lines of its tools."""
    with Steptrail.open_sync(folder.store) as trail:
        records = trail.session(session).events()
    return Moment(records, [line for line in folder.ledger.read() if line.effect_id.startswith(f"{session}:")])


def six_questions(folder: Folder, kind: ModelKind, draw: random.Random) -> list[Proof]:
    """Kill the reader at a random moment and let it go on."""
    lines, delay = draw.randint(4, 18), draw.uniform(0, 0.2)
    heading("1. Six questions about six files of this repository, one session")
    print(f"  to be killed {delay:.3f} s after line {lines}", flush=True)
    Worker("questions", folder, kind).kill(lambda printed: printed >= lines, delay)
    before = moment(folder, "files")
    print("  the same command again:", flush=True)
    Worker("questions", folder, kind).finish()
    after = moment(folder, "files")
    why(folder, "files")
    print("\n  what the tools returned:")
    for call in after.calls:
        runs = sum(line.effect_id == call.effect_id for line in after.lines)
        found = ", ".join(str(result) for result in call.results) or "-"
        print(f"  {call.arguments.get('file', '?')!s:<26}{found:>5} lines   runs of the tool: {runs}")
    return [*of_the_questions(after, FILES), *nothing_twice(before, after)]


def an_order(folder: Folder, kind: ModelKind) -> list[Proof]:
    """Kill the order inside its second tool and let it go on."""
    heading("2. Three tools in one step, killed inside the second (the model here is a script)")

    def charging(printed: int) -> bool:
        del printed
        return folder.bank.payments() > 0

    Worker("order", folder, kind).kill(charging)
    before = moment(folder, "order")
    print("  the same command again:", flush=True)
    Worker("order", folder, kind).finish()
    after = moment(folder, "order")
    why(folder, "order")
    return [*of_the_order(before, after, folder.bank.payments()), *nothing_twice(before, after)]


def a_limit(folder: Folder, kind: ModelKind) -> list[Proof]:
    """Let a limit end what would not end by itself."""
    heading(f"3. A reader that may only call tools, with at most {LIMIT} steps")
    Worker("endless", folder, kind).finish()
    why(folder, "endless")
    return of_the_limit(moment(folder, "endless").records, LIMIT)


def why(folder: Folder, session: str) -> None:
    """Ask the command line why a run stopped."""
    print(f"\n  $ steptrail why {session}", flush=True)
    command = [str(Path(sys.executable).with_name("steptrail")), "why", session]
    environment = {**os.environ, "STEPTRAIL_STORE": folder.store}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment)
    if answer.returncode != 0:
        raise WorkerFailed(f"`steptrail why` failed: {answer.stderr.strip()}")
    print("\n".join(f"  {line}".rstrip() for line in answer.stdout.splitlines()), flush=True)


def heading(text: str) -> None:
    """Print where we are."""
    print(f"\n== {text}\n", flush=True)


def summary(parts: Sequence[Sequence[Proof]]) -> bool:
    """Print what was proved; tell whether all of it holds."""
    heading("Proved from the log and the ledger")
    widest = max(len(proof.claim) for proofs in parts for proof in proofs)
    for number, proofs in enumerate(parts, 1):
        for proof in proofs:
            print(f"  {number} {'ok    ' if proof.holds else 'FAILED'} {proof.claim:<{widest}}   {proof.figures}")
    return all(proof.holds for proofs in parts for proof in proofs)


def working_folder(chosen: Path | None) -> Folder:
    """Return an empty folder: our own, made anew, or one that the caller chose and that is empty already."""
    path = (chosen or ROOT / ".demo").resolve()
    if chosen is None:
        shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        sys.exit(f"demo: {path} is not empty; choose another folder")
    return Folder(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit status is 1 when anything that it claims does not hold."""
    parser = argparse.ArgumentParser(description="Kill agents in the middle of their work and let them go on.")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="the moment of the first kill")
    parser.add_argument("--folder", type=Path, help="an empty folder to work in (default: .demo, made anew)")
    parser.add_argument("--scripted", action="store_true", help="use the scripted model even if a real one is there")
    given = parser.parse_args(arguments)
    kind, said = (ModelKind.SCRIPTED, "A SCRIPT, NOT A MODEL, as you asked") if given.scripted else available()
    print(f"model   {said}\nseed    {given.seed}   (the same again: --seed {given.seed})", flush=True)
    if os.environ.get("STEPTRAIL_DEMO_REQUIRE_LOCAL") == "1" and kind is not ModelKind.LOCAL:
        print("demo: STEPTRAIL_DEMO_REQUIRE_LOCAL is set, and this is not the local model", file=sys.stderr)
        return 1
    folder = working_folder(given.folder)
    try:
        parts = [
            six_questions(folder, kind, random.Random(given.seed)),
            an_order(folder, kind),
            a_limit(folder, kind),
        ]
    except WorkerFailed as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    held = summary(parts)
    print(f"\n  model: {kind.value}   seed: {given.seed}   store: {folder.store}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())

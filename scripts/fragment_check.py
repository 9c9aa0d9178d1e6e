"""Require a changelog fragment from a change of a layer.

python -m scripts.fragment_check [--base origin/main] [--or-nothing]

What is looked at is committed: everything since the merge base with BASE, or since the first parent where BASE is not
here or is what is checked out. A commit that no user can notice says so in its last paragraph: `No-Fragment: reason`.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BASE = "origin/main"
LAYERS = ("domain", "infrastructure", "interfaces", "projections", "runtime", "src", "testing")
"""The folders that are shipped."""


def _git(root: Path, *arguments: str) -> list[str] | None:
    """Return the lines that git answers, or None when it refuses."""
    # The checkout may belong to another user than the one who asks, as in a container.
    command = ["git", "-c", "safe.directory=*", "-c", "core.quotePath=false", *arguments]
    answered = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return answered.stdout.splitlines() if answered.returncode == 0 else None


def _start(root: Path, base: str, *, or_parent: bool) -> str | None:
    """Return the commit that the change starts from, or None when this checkout does not hold it."""
    head = _git(root, "rev-parse", "HEAD")
    found = _git(root, "merge-base", base, "HEAD")
    # On the base itself nothing lies between the two.
    if or_parent and (found is None or found == head):
        found = _git(root, "rev-parse", "--verify", "--quiet", "HEAD^")
    return found[0] if found and found != head else None


def complaint(root: Path, start: str) -> str | None:
    """Return one line about what has changed since a commit, or None when nothing is missing."""
    changed = _git(root, "diff", "--name-only", "--no-renames", start, "HEAD") or []
    layers = sorted({name.split("/")[0] for name in changed if "/" in name} & set(LAYERS))
    brought = (
        _git(root, "diff", "--name-only", "--no-renames", "--diff-filter=AM", start, "HEAD", "--", "changes") or []
    )
    if not layers or any(name != "changes/README.md" for name in brought):
        return None
    form = "--format=%h %(trailers:key=No-Fragment,valueonly,separator=%x20)"
    told = _git(root, "log", "--no-merges", form, f"{start}..HEAD", "--", *LAYERS) or []
    unexcused = [line.strip() for line in told if len(line.split()) == 1]
    if told and not unexcused:
        return None
    return (
        f"{', '.join(layers)} changed ({', '.join(unexcused)}) and no fragment came with it: see changes/README.md, "
        "or let each such commit end with 'No-Fragment: reason'"
    )


def main(arguments: Sequence[str] | None = None, *, root: Path | None = None) -> int:
    """Print what is missing and return 1; 0 when nothing is."""
    parser = argparse.ArgumentParser(prog="fragment_check")
    parser.add_argument("--base", default=BASE, help="what the change is to be merged into (default: %(default)s)")
    parser.add_argument(
        "--or-nothing",
        action="store_true",
        help="compare with BASE or not at all, where it is not here or is checked out",
    )
    given = parser.parse_args(arguments)
    root = root or Path.cwd()
    start = _start(root, given.base, or_parent=not given.or_nothing)
    if start is None:
        print(f"fragment: nothing to compare with: no commit that comes after {given.base}", file=sys.stderr)
        return 0 if given.or_nothing else 1
    if missing := complaint(root, start):
        print(f"fragment: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

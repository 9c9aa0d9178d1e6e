"""Which state of the code was measured, so that a figure can be traced to what it is a figure of."""

import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_MEASURED = ("domain", "projections", "runtime", "infrastructure", "interfaces", "testing", "src", "benchmarks")


def describe_code() -> dict[str, str]:
    """Return the version of the package, the commit of this checkout with its day, and whether it was changed since."""
    commit = _git("log", "-1", "--format=%h of %cs")
    changed = _git("status", "--porcelain", "--", *_MEASURED, ":!benchmarks/results")
    return {
        "steptrail": version("steptrail"),
        "commit": (commit or "unknown") + (", with changes that are in no commit" if changed else ""),
    }


def _git(*arguments: str) -> str:
    """Return what git says; an empty text where there is no git or no repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run([git, *arguments], cwd=_ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""

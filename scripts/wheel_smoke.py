"""Build what users install, install it as they do, and import all of it.

The wheel is built from the source archive, goes with its core dependencies into a fresh environment, and is looked at
from an empty directory, so that nothing of the checkout can stand in for a file that was left out. With `--installed`
the same file is the part that runs inside that environment: it may import the standard library only.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

LAYERS = ("domain", "infrastructure", "interfaces", "projections", "runtime", "testing")
NEEDS_AN_EXTRA = "steptrail.testing"
HEAVY = (
    "ag_ui",
    "anthropic",
    "cel_expr_python",
    "eventsourcing.postgres",
    "filelock",
    "jinja2",
    "mcp",
    "openai",
    "psycopg",
    "psycopg_pool",
    "pusher",
    "sqlite3",
    "sse_starlette",
    "starlette",
    "uvicorn",
    "xllamacpp",
    "yaml",
)


def require(condition: bool, message: str) -> None:
    """End the run with `message` unless `condition` holds."""
    if not condition:
        sys.exit(f"wheel smoke: {message}")


def check_archives(dist: Path) -> Path:
    """Return the wheel in `dist`; the source archive beside it must hold real folders where we have links."""
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        links = [member.name for member in archive.getmembers() if member.issym() or member.islnk()]
    require(not links, f"the source archive holds links, which not every system can unpack: {links}")
    (wheel,) = dist.glob("*.whl")
    return wheel


def check_import_is_light() -> None:
    """Import the package, the first thing this process does, and require that no driver or database came along."""
    require("steptrail" not in sys.modules, "the package was imported before it was looked at")
    importlib.import_module("steptrail")
    loaded = [name for name in HEAVY if name in sys.modules]
    require(not loaded, f"import steptrail loads {loaded}")


def check_layers() -> None:
    """Require each layer as a package.

    A checkout without symbolic links builds a text file in place of each, and reports success.
    """
    for layer in LAYERS:
        spec = importlib.util.find_spec(f"steptrail.{layer}")
        require(
            spec is not None and spec.submodule_search_locations is not None,
            f"steptrail.{layer} is not in the wheel; are src/steptrail/* symbolic links in this checkout?",
        )


def check_modules() -> int:
    """Import each module that the core install carries, and return how many there are."""
    package = importlib.import_module("steptrail")
    names = [
        module.name
        for module in pkgutil.walk_packages(package.__path__, "steptrail.", onerror=raise_again)
        if not f"{module.name}.".startswith(f"{NEEDS_AN_EXTRA}.") and not module.name.endswith(".__main__")
    ]
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            sys.exit(f"wheel smoke: {name} does not import with the core install: {error}")
    strays = [
        name
        for name, module in sys.modules.items()
        if name.split(".")[0] == "steptrail" and not (module.__file__ or "").startswith(sys.prefix)
    ]
    require(not strays, f"loaded from outside the environment: {strays}")
    return len(names)


def raise_again(name: str) -> None:
    """Let the reason out that `walk_packages` would keep to itself; the test kit alone may need its extra."""
    if not f"{name}.".startswith(f"{NEEDS_AN_EXTRA}."):
        raise


def check_files() -> None:
    """Require one top-level name, the licence, and the marker that the package is typed."""
    files = importlib.metadata.files("steptrail") or []
    version = importlib.metadata.version("steptrail")
    foreign = {file.parts[0] for file in files} - {"steptrail", f"steptrail-{version}.dist-info", ".."}
    require(not foreign, f"the wheel installs foreign top-level names: {sorted(foreign)}")
    names = {file.as_posix() for file in files}
    require("steptrail/py.typed" in names, "py.typed is not in the wheel")
    pages = "steptrail/interfaces/http/inspector"
    for name in (
        f"{pages}/templates/run.html",
        f"{pages}/static/own/inspector.css",
        f"{pages}/static/vendor/SHA256SUMS",
    ):
        require(name in names, f"{name} is not in the wheel")
    require(any(name.endswith("/LICENSE") for name in names), "LICENSE is not in the wheel")


def check_command() -> None:
    """Require that `steptrail --help` answers, once there is a command line."""
    # Outermost first: looking for a module inside a package that is missing raises.
    if not all(map(importlib.util.find_spec, ("steptrail.interfaces.cli", "steptrail.interfaces.cli.main"))):
        return
    command = Path(sys.executable).with_name("steptrail")
    done = subprocess.run([command, "--help"], capture_output=True, text=True)
    require(done.returncode == 0, f"steptrail --help exits with {done.returncode}:\n{done.stdout}{done.stderr}")
    require("usage" in done.stdout.lower(), f"steptrail --help prints no usage:\n{done.stdout}")


def check_installed() -> None:
    """Check the installation this interpreter belongs to."""
    check_import_is_light()
    check_layers()
    count = check_modules()
    check_files()
    check_command()
    print(f"wheel smoke: {count} modules import from the wheel with the core install")


def installed(root: Path, scratch: Path, uv: Path | None) -> Path:
    """Return the Python of a fresh environment in `scratch` with the wheel, made by `uv` or else by pip."""
    scratch.mkdir()
    dist, environment = scratch / "dist", scratch / "venv"
    build: list[str | Path] = [sys.executable, "-m", "build", "--installer", "uv" if uv else "pip", "--outdir", dist]
    subprocess.run([*build, root], check=True, stdout=subprocess.DEVNULL)
    wheel = check_archives(dist)
    venv.create(environment, with_pip=uv is None)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip: list[str | Path] = [python, "-I", "-m", "pip", "--disable-pip-version-check", "install"]
    install = [uv, "pip", "install", "--python", python] if uv else pip
    subprocess.run([*install, "--quiet", wheel], check=True, cwd=scratch)
    return python


def main() -> None:
    """Build, install and check; exit with a message at the first thing that is wrong."""
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory(prefix="steptrail-smoke-") as made:
        scratch = Path(made)
        neutral = scratch / "neutral"
        neutral.mkdir()
        try:
            python = installed(root, scratch / "uv", Path(sys.executable).with_name("uv"))
        except (OSError, subprocess.CalledProcessError):
            print("wheel smoke: uv cannot do it here, pip tries", flush=True)
            python = installed(root, scratch / "pip", None)
        inside = subprocess.run([python, "-I", Path(__file__).resolve(), "--installed"], cwd=neutral)
    sys.exit(inside.returncode)


if __name__ == "__main__":
    check_installed() if sys.argv[1:] == ["--installed"] else main()

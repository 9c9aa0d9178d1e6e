"""A change of a layer brings a fragment, or says why it needs none."""

import subprocess
from pathlib import Path
from shutil import copytree

import pytest

from scripts.fragment_check import LAYERS, main


class Repository:
    """A repository of its own, in a folder that is thrown away."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=self.root, check=True, capture_output=True)

    def commit(self, message: str, *names: str) -> None:
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(message, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def check(self, *arguments: str) -> int:
        return main(arguments, root=self.root)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that has begun, of which each test has a copy."""
    made = Repository(tmp_path_factory.mktemp("repository"))
    made.git("init", "--quiet", "--initial-branch=main", "--template=")
    made.commit("Begin", "domain/state.py", "changes/README.md")
    made.git("switch", "--quiet", "--create", "topic")
    return made.root


@pytest.fixture
def repository(tmp_path: Path, begun: Path) -> Repository:
    return Repository(copytree(begun, tmp_path / "repository"))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_change_of_a_layer_needs_a_fragment(
    layer: str, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("Change", f"{layer}/new.py")
    assert repository.check("--base", "main") == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"fragment: {layer} changed (")
    repository.commit("Tell", "changes/12.added.md")
    assert repository.check("--base", "main") == 0


def test_other_folders_and_what_main_did_meanwhile_need_none(repository: Repository) -> None:
    repository.commit("Test", "tests/unit/test_a.py", "scripts/a.py", "domain.md")
    repository.git("switch", "--quiet", "main")
    repository.commit("Elsewhere", "runtime/loop.py")
    repository.git("switch", "--quiet", "topic")
    assert repository.check("--base", "main") == 0


def test_a_fragment_that_was_edited_will_do_and_one_that_went_will_not(repository: Repository) -> None:
    repository.git("switch", "--quiet", "main")
    repository.commit("Tell", "changes/12.added.md")
    repository.git("switch", "--quiet", "--create", "second")
    repository.commit("Change", "domain/state.py", "changes/12.added.md")
    assert repository.check("--base", "main") == 0
    (repository.root / "changes/12.added.md").unlink()
    repository.commit("Take back", "domain/state.py")
    assert repository.check("--base", "main") == 1


def test_the_page_about_fragments_is_not_a_fragment(repository: Repository) -> None:
    repository.commit("Change", "domain/state.py", "changes/README.md")
    assert repository.check("--base", "main") == 1


def test_a_commit_may_say_why_it_needs_none_but_not_leave_the_reason_out(repository: Repository) -> None:
    repository.commit("Rename\n\nNo-Fragment: private names only", "domain/state.py")
    assert repository.check("--base", "main") == 0
    repository.commit("Rename again\n\nNo-Fragment:", "domain/state.py")
    assert repository.check("--base", "main") == 1


def test_a_reason_speaks_for_its_own_commit_only(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.commit("Change", "domain/state.py")
    seen = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=repository.root, capture_output=True, text=True)
    repository.commit("Rename\n\nNo-Fragment: private names only", "domain/state.py")
    repository.commit("Test", "tests/test_a.py")
    assert repository.check("--base", "main") == 1
    assert f"domain changed ({seen.stdout.strip()}) and no fragment" in capsys.readouterr().err


def test_a_file_that_left_a_layer_is_a_change_of_it(repository: Repository) -> None:
    repository.git("mv", "domain/state.py", "state.py")
    repository.commit("Move out")
    assert repository.check("--base", "main") == 1


def test_without_the_base_and_on_it_the_last_commit_is_compared_with_its_first_parent(repository: Repository) -> None:
    repository.commit("Tell", "changes/12.added.md")
    repository.commit("Change", "domain/state.py")
    assert repository.check() == 1
    assert repository.check("--base", "topic") == 1
    repository.commit("Test", "tests/test_a.py")
    assert repository.check() == 0


def test_ci_compares_with_the_base_or_not_at_all(repository: Repository) -> None:
    repository.commit("Change", "domain/state.py")
    assert repository.check("--or-nothing") == 0
    assert repository.check("--or-nothing", "--base", "topic") == 0
    assert repository.check("--or-nothing", "--base", "main") == 1


def test_a_first_commit_has_nothing_to_be_compared_with(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.git("switch", "--quiet", "main")
    assert repository.check() == 1
    assert "nothing to compare with" in capsys.readouterr().err


def test_the_layers_are_those_that_are_shipped(root: Path) -> None:
    assert {link.name for link in (root / "src" / "steptrail").iterdir() if link.is_symlink()} | {"src"} == set(LAYERS)

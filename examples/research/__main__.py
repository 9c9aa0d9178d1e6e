"""Report on what a folder of files says about a topic: `python -m examples.research crash`."""

import argparse
from pathlib import Path

from examples.common import add_model_option, choose_model, exit_code, finish, folder, who_speaks
from examples.research.agent import lead, notes, reader
from examples.research.citations import cited, problems
from examples.research.library import Library
from examples.research.script import lead_script, reader_script
from steptrail import Steptrail

__all__ = ["main"]

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


async def main(topic: str, files: Path, folder: Path, model: str | None, max_steps: int) -> int:
    """Write the report, or what there is of it, and check what it cites."""
    folder.mkdir(parents=True, exist_ok=True)
    library = Library(files)
    staff = reader(choose_model(model, reader_script(topic)), library)
    agent = lead(choose_model(model, lead_script(topic)), staff, library, max_steps=max_steps)
    print(who_speaks(model))
    async with Steptrail.open(f"sqlite:///{folder / 'runs.db'}") as trail:
        result = await trail.run(agent, f"Report on: {topic}", key=f"{topic} in {files.resolve()}, {max_steps} steps")
        why = await trail.session(result.session_id).why()
        tree = await trail.tree(result.session_id)
    report, title = result.output, "report"
    if report is None:
        report, title = "\n".join(f"- {note}" for note in notes(result)), "partial report, from the notes"
    (folder / "report.md").write_text(report + "\n", encoding="utf-8")
    print(f"{title}:\n{report}")
    print(f"why: {why.verdict}")
    for depth, each in tree.walk():
        print(f"{'  ' * depth}{each.run.name}: {each.run.steps} steps, {each.own_usage.total} tokens of its own")
    wrong = problems(report, library) if report else []
    print(f"citations: {len(cited(report))} found, {len(wrong)} wrong")
    print(f"reports sent back by that check: {result.state.metadata.get('self_critic_iteration', 0)}")
    for problem in wrong:
        print(f"  {problem}")
    return 1 if wrong else exit_code(result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topic", help="a word that the files have")
    parser.add_argument("--files", type=Path, default=GUIDES, help="the folder to report on (default: the guides)")
    parser.add_argument("--folder", type=folder, default=Path("research"), help="for the store and the report")
    parser.add_argument("--max-steps", type=int, default=12, metavar="N")
    add_model_option(parser)
    given = parser.parse_args()
    if not given.files.is_dir():
        parser.error(f"there is no folder {given.files}")
    if given.model is None and not Library(given.files).search(given.topic):
        parser.error(f"no file holds {given.topic!r}: a script needs a topic that stands there word for word")
    finish(main(given.topic, given.files, given.folder, given.model, given.max_steps))

"""Ask for a refund, and end. Exit code 4 says that it waits: `python -m examples.approval.ask refund-1`."""

from pathlib import Path

from examples.approval.desk import desk, parser_of, store_of
from examples.common import add_model_option, exit_code, finish, who_speaks
from steptrail import Steptrail

__all__ = ["main"]


async def main(session: str, folder: Path, model: str | None, hours: float) -> int:
    """Start the run and say what it waits for."""
    folder.mkdir(parents=True, exist_ok=True)
    print(who_speaks(model))
    async with Steptrail.open(store_of(folder)) as trail:
        agent = desk(folder, model=model, hours=hours)
        result = await trail.run(agent, "Order A-7 came broken: refund its 900 cents.", session=session, key=session)
        why = await trail.session(session).why()
    print(f"{session}: {why.verdict}")
    return exit_code(result)


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("session", help="an id of your choice")
    parser.add_argument("--hours", type=float, default=72.0, help="until no answer is a no")
    add_model_option(parser)
    given = parser.parse_args()
    finish(main(given.session, given.folder, given.model, given.hours))

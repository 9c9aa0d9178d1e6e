"""Go on with whatever can go on, and end: `python -m examples.approval.work`, once a minute from cron for instance.

`trail.due()` names the sessions that were answered, whose approval expired, or whose process died. Several may run at
once, because one that takes long meets the next: a session that another process has taken up is left to that.
"""

from pathlib import Path

from examples.approval.desk import desk, parser_of, store_of
from examples.common import add_model_option, finish, who_speaks
from steptrail import Steptrail
from steptrail.errors import SessionBusy

__all__ = ["main"]


async def main(folder: Path, model: str | None) -> int:
    """Resume each session that is due."""
    print(who_speaks(model))
    async with Steptrail.open(store_of(folder)) as trail:
        for row in await trail.due():
            try:
                result = await trail.session(row.session_id).resume(desk(folder, model=model))
            except SessionBusy as error:
                print(f"left: {error}")
            else:
                print(f"{row.session_id}: {result.status}: {result.output or 'no answer yet'}")
    return 0


if __name__ == "__main__":
    parser = parser_of(__doc__)
    add_model_option(parser)
    given = parser.parse_args()
    finish(main(given.folder, given.model))

"""Show what waits for a yes, or answer it: `python -m examples.approval.review`. It knows no agent and runs nothing."""

import argparse
import json
import sys

from pydantic import JsonValue, TypeAdapter

from examples.approval.desk import parser_of, store_of
from examples.common import finish
from steptrail import Steptrail
from steptrail.errors import CommandRejected, ConfigurationError, SessionNotFound

__all__ = ["arguments_of", "main"]


def arguments_of(text: str) -> dict[str, JsonValue]:
    """Read the arguments of a call. Raises `ValueError` for what is no JSON object."""
    return TypeAdapter(dict[str, JsonValue]).validate_json(text)


async def main(given: argparse.Namespace) -> int:
    """Answer what is to be answered, then list what is open."""
    async with Steptrail.open(store_of(given.folder)) as trail:
        chosen: str | None = given.deny if given.approve is None else given.approve
        if chosen is not None:
            try:
                session = trail.session(chosen.partition(":")[0])
                if given.approve is not None:
                    await session.approve(chosen, by=given.by, arguments=given.edit, digest=given.digest)
                else:
                    await session.deny(chosen, by=given.by, reason=given.reason)
            except (CommandRejected, ConfigurationError, SessionNotFound) as error:
                print(f"refused: {error}", file=sys.stderr)
                return 2
            print(f"recorded: {chosen}")
        for asked in await trail.inbox():
            print(f"open: {asked.id}: {asked.tool} {json.dumps(asked.arguments)}")
            print(f"  {asked.reason}; until {asked.expires_at:%Y-%m-%d %H:%M} UTC; digest {asked.digest}")
    return 0


if __name__ == "__main__":
    parser = parser_of(__doc__)
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--approve", metavar="APPROVAL")
    answer.add_argument("--deny", metavar="APPROVAL")
    parser.add_argument("--by", default="reviewer", help="who answers, for the record")
    parser.add_argument("--edit", type=arguments_of, metavar="JSON", help="the arguments to run it with instead")
    parser.add_argument("--digest", help="say yes only to the arguments of this digest")
    parser.add_argument("--reason", help="why not; the model is told")
    finish(main(parser.parse_args()))

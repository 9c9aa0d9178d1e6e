"""Answer one ticket: `python -m examples.support_desk 1`. Giving the same command again is always safe."""

import argparse
import shlex
from pathlib import Path

from examples.common import add_model_option, choose_model, exit_code, finish, folder, seconds, who_speaks
from examples.support_desk.agent import support_agent
from examples.support_desk.script import SCRIPTS
from examples.support_desk.shop import Shop
from steptrail import Steptrail

__all__ = ["main"]


async def main(ticket: int, folder: Path, model: str | None, slow: float) -> int:
    """Answer the ticket, or go on with it, and show what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    shop, store, session = Shop(folder / "shop.db"), f"sqlite:///{folder / 'runs.db'}", f"ticket-{ticket}"
    agent = support_agent(choose_model(model, SCRIPTS.get(ticket, [])), shop, slow=slow)
    print(who_speaks(model))
    async with Steptrail.open(store) as trail:
        result = await trail.run(agent, shop.ticket(ticket), session=session, key=session)
        why = await trail.session(session).why()
    print(f"answer: {result.output or '(none)'}")
    print(f"why: {why.verdict}")
    for approval in result.state.open_approvals:
        approve = ["steptrail", "approve", session, approval.id, "--by", "YOU", "--store", store]
        print(f"to approve: {shlex.join(approve)}")
    for row in shop.refunds():
        print(f"refund: order {row['order_id']}, {row['cents']} cents, effect {row['effect_id']}")
    for row in shop.outbox():
        print(f"e-mail: {row['recipient']}, {row['subject']}")
    return exit_code(result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ticket", type=int, help="1: a small refund, 2: one that needs approval, 3: a lawyer")
    parser.add_argument("--folder", type=folder, default=Path("support-desk"), help="for the databases")
    parser.add_argument(
        "--slow", type=seconds, default=0.0, metavar="S", help="the bank takes so long: time for a kill"
    )
    add_model_option(parser)
    given = parser.parse_args()
    try:
        finish(main(given.ticket, given.folder, given.model, given.slow))
    except LookupError as error:
        parser.error(str(error))

"""Serve the agent: `python -m examples.service --port 8000`."""

import argparse
from pathlib import Path

import uvicorn

from examples.common import add_model_option, folder, port, seconds, who_speaks
from examples.service.agent import shop_agent
from examples.service.app import create_app

__all__: list[str] = []

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=folder, default=Path("service"), help="for the store and the orders")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=port, default=8000, help="0 chooses a free one")
    parser.add_argument("--slow", type=seconds, default=0.0, metavar="S", help="the supplier takes so long to answer")
    parser.add_argument("--grace", type=seconds, default=10.0, metavar="S", help="what a shutdown waits for")
    add_model_option(parser)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(who_speaks(given.model), flush=True)
    agent = shop_agent(given.folder / "orders", model=given.model, slow=given.slow)
    app = create_app(f"sqlite:///{given.folder / 'runs.db'}", agent, grace=given.grace)
    # A client that has stopped reading would hold up the end for ever.
    uvicorn.run(app, host=given.host, port=given.port, timeout_graceful_shutdown=15)

"""The floor of a resume: a process that reads the rows of a session, parses each as JSON, and knows nothing of us.

`python benchmarks/bare_reader.py URL STREAM` with the address of the store.
"""

import sys

_ROWS = (
    "SELECT e.state, e.content FROM {0}events e JOIN {0}streams s ON s.number = e.stream WHERE s.id = {1} "
    "ORDER BY e.version"
)


def main(url: str, stream: str) -> None:
    """Read and parse."""
    import orjson

    if url.startswith("sqlite:///"):
        import sqlite3

        rows = sqlite3.connect(url.removeprefix("sqlite:///")).execute(_ROWS.format("", "?"), (stream,)).fetchall()
    else:
        import psycopg

        rows = psycopg.connect(url).execute(_ROWS.format("steptrail.", "%s").encode(), (stream,)).fetchall()
    print(len([[orjson.loads(part) for part in row if part is not None] for row in rows]))


if __name__ == "__main__":
    main(*sys.argv[1:3])

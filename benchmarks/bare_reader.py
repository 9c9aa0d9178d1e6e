"""The floor of a resume: a process that reads the rows of a session, parses each as JSON, and knows nothing of us.

`python benchmarks/bare_reader.py URL STREAM` with the address of the store.
"""

import sys

__all__ = ["main"]


def main(url: str, stream: str) -> None:
    """Read and parse."""
    import orjson

    if url.startswith("sqlite:///"):
        import sqlite3

        statement = "SELECT state FROM events WHERE stream = (SELECT number FROM streams WHERE id = ?) ORDER BY version"
        rows = sqlite3.connect(url.removeprefix("sqlite:///")).execute(statement, (stream,)).fetchall()
    else:
        import psycopg

        statement = (
            "SELECT e.state FROM steptrail.events e JOIN steptrail.streams s ON s.number = e.stream WHERE s.id = %s"
        )
        rows = psycopg.connect(url).execute(statement + " ORDER BY e.version", (stream,)).fetchall()
    print(len([orjson.loads(row[0]) for row in rows]))


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""The floor of a resume: a process that reads the rows of a session, parses each as JSON, and knows nothing of us.

`python benchmarks/bare_reader.py URL TABLE STREAM` with the address of the store.
"""

import sys

__all__ = ["main"]


def main(url: str, table: str, stream: str) -> None:
    """Read and parse."""
    import orjson

    if url.startswith("sqlite:///"):
        import sqlite3

        statement = f"SELECT state FROM {table} WHERE originator_id = ? ORDER BY originator_version"
        rows = sqlite3.connect(url.removeprefix("sqlite:///")).execute(statement, (stream,)).fetchall()
    else:
        import psycopg

        statement = f"SELECT state FROM {table} WHERE originator_id = %s ORDER BY originator_version"
        rows = psycopg.connect(url).execute(statement.encode(), (stream,)).fetchall()
    print(len([orjson.loads(row[0]) for row in rows]))


if __name__ == "__main__":
    main(*sys.argv[1:4])

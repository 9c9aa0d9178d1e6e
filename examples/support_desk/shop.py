"""The shop's database: customers, orders, payments and an outbox, in a SQLite file that is made and filled if need be.

Every statement takes its values as parameters. What the model writes never becomes part of the SQL.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Row", "Shop"]

Row = dict[str, Any]

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customers, item TEXT NOT NULL,
    cents INTEGER NOT NULL, due TEXT NOT NULL, shipped TEXT
);
CREATE TABLE payments (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders, cents INTEGER NOT NULL,
    effect_id TEXT UNIQUE
);
CREATE TABLE outbox (id INTEGER PRIMARY KEY, recipient TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE tickets (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""
CUSTOMERS = [
    "Ana Lindqvist",
    "Bo Okafor",
    "Chen Wei",
    "Dara Novak",
    "Eli Haddad",
    "Fay Moreau",
    "Gil Santos",
    "Hana Ito",
]
ITEMS = [("tea pot", 2900), ("kettle", 18900), ("tea, 500 g", 1450), ("six cups", 5400)]
TICKETS = [
    "Anna Lindqvist here. My tea pot should have come days ago. I bought one elsewhere: please refund it.",
    "This is Bo Okafor. The kettle is late again, I want my money back.",
    "Chen Wei. This is the third time that I write. My lawyer will hear of it.",
]


class Shop:
    """The database. Each call opens a connection of its own, because tools run on threads of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._transaction() as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'orders'").fetchone() is None:
                _fill(db)

    def find_customers(self, name: str) -> list[Row]:
        """Return the customers whose name holds `name`."""
        pattern = "%" + name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        return self._rows("SELECT * FROM customers WHERE name LIKE ? ESCAPE '\\' ORDER BY id", pattern)

    def late_orders(self, customer: int) -> list[Row]:
        """Return the orders of a customer that were due before today and have not been shipped."""
        return self._rows(
            "SELECT * FROM orders WHERE customer = ? AND shipped IS NULL AND due < date('now') ORDER BY due", customer
        )

    def order(self, order: int) -> Row:
        """Return an order with what has been paid for it, refunds taken off. Raises `LookupError` without one."""
        found = self._rows(
            "SELECT orders.*, name, email, (SELECT coalesce(sum(cents), 0) FROM payments WHERE order_id = orders.id)"
            " AS paid FROM orders JOIN customers ON customers.id = customer WHERE orders.id = ?",
            order,
        )
        if not found:
            raise LookupError(f"there is no order {order}")
        return found[0]

    def refund(self, order: int, cents: int, effect_id: str) -> bool:
        """Pay back a part of an order, once for each effect id; return false when it had been done before.

        Raises `ValueError` for more than has been paid.
        """
        with self._transaction() as db:
            if db.execute("SELECT 1 FROM payments WHERE effect_id = ?", (effect_id,)).fetchone():
                return False
            (paid,) = db.execute("SELECT coalesce(sum(cents), 0) FROM payments WHERE order_id = ?", (order,)).fetchone()
            if cents > paid:
                raise ValueError(f"{cents} cents are more than the {paid} that are paid for order {order}")
            db.execute("INSERT INTO payments (order_id, cents, effect_id) VALUES (?, ?, ?)", (order, -cents, effect_id))
        return True

    def send(self, recipient: str, subject: str, body: str) -> None:
        """Put an e-mail into the outbox."""
        with self._transaction() as db:
            db.execute("INSERT INTO outbox (recipient, subject, body) VALUES (?, ?, ?)", (recipient, subject, body))

    def ticket(self, number: int) -> str:
        """Return what a customer wrote. Raises `LookupError` without such a ticket."""
        found = self._rows("SELECT text FROM tickets WHERE id = ?", number)
        if not found:
            raise LookupError(f"there is no ticket {number}: there are 1 to {len(TICKETS)}")
        text: str = found[0]["text"]
        return text

    def refunds(self) -> list[Row]:
        """Return the payments that went back."""
        return self._rows("SELECT order_id, -cents AS cents, effect_id FROM payments WHERE cents < 0 ORDER BY id")

    def outbox(self) -> list[Row]:
        """Return the e-mails."""
        return self._rows("SELECT recipient, subject FROM outbox ORDER BY id")

    def _rows(self, statement: str, *values: object) -> list[Row]:
        with self._transaction() as db:
            return [dict(row) for row in db.execute(statement, values)]

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, isolation_level=None, timeout=30)) as db, db:
            db.row_factory = sqlite3.Row
            db.execute("BEGIN IMMEDIATE")
            yield db


def _fill(db: sqlite3.Connection) -> None:
    for statement in filter(str.strip, SCHEMA.split(";")):
        db.execute(statement)
    for number, name in enumerate(CUSTOMERS, 1):
        email = f"{name.split()[0].lower()}@example.org"
        db.execute("INSERT INTO customers VALUES (?, ?, ?)", (number, name, email))
    for order in range(1, 25):
        item, cents = ITEMS[(order - 1) % len(ITEMS)]
        customer, is_shipped = (order - 1) % len(CUSTOMERS) + 1, order > len(ITEMS)
        due = f"-{order + 1} days"
        db.execute(
            "INSERT INTO orders VALUES (?, ?, ?, ?, date('now', ?), CASE WHEN ? THEN date('now', ?) END)",
            (order, customer, item, cents, due, is_shipped, due),
        )
        db.execute("INSERT INTO payments (order_id, cents) VALUES (?, ?)", (order, cents))
    db.executemany("INSERT INTO tickets (text) VALUES (?)", [(text,) for text in TICKETS])

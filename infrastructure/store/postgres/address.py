"""The address of a PostgreSQL store, taken apart: what the driver needs, what is ours, and a name without secrets.

Ours are `answer_timeout` (the longest a statement may take, waiting for a lock not counted) and `lease_seconds` (how
long a lease outlives its owner), both in seconds, and `connections` (the most that a process opens). Everything else is
the driver's: passwords may also come from `PGPASSWORD` or `~/.pgpass`, encryption is `sslmode`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.store.postgres.driver import parse_address

_OURS = {"answer_timeout": 30.0, "lease_seconds": 30.0}
_CONNECTIONS = "connections"
_NOT_READING = 4
"""One writes, one is for leases, one hears of commits, and one carries live text."""
_FEWEST, _USUAL, _MOST = _NOT_READING + 1, 8, 1_000


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Where the store is. `name` is what messages call it.

    `readers` is how many questions a process asks at once, each on a connection of its own.
    """

    parameters: Mapping[str, str] = field(repr=False)
    name: str
    answer_timeout: float
    lease_seconds: float
    readers: int

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take an address apart. Raises `ConfigurationError`, which repeats no secret, or `MissingExtra`."""
        address, _, query = url.partition("?")
        options = [option.partition("=") for option in query.split("&") if option]
        ours = {name: _seconds(name, value) for name, _, value in options if name in _OURS}
        numbers = [_connections(value) for name, _, value in options if name == _CONNECTIONS]
        known = {*_OURS, _CONNECTIONS}
        theirs = "&".join(name + equals + value for name, equals, value in options if name not in known)
        try:
            parameters = _checked(parse_address(f"{address}?{theirs}" if theirs else address))
        except ValueError:
            settings = f"; settings behind ? are {', '.join(sorted(known))} and those of libpq" if theirs else ""
            raise ConfigurationError(
                "the postgresql:// address is not understood: give postgresql://USER@HOST:5432/DATABASE, "
                f"with % codes for special characters{settings}"
            ) from None
        most = numbers[-1] if numbers else _USUAL
        return cls(parameters, _name(parameters), **{**_OURS, **ours}, readers=most - _NOT_READING)


def _checked(parameters: Mapping[str, str]) -> Mapping[str, str]:
    # A password with an @ or a / that was not coded ends up in what comes behind it, and so in every message.
    has_strays = any("@" in parameters.get(name, "") for name in ("host", "hostaddr", "dbname"))
    if has_strays or not all(port.isdigit() for port in parameters.get("port", "0").split(",") if port):
        raise ValueError
    return parameters


def _seconds(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.01 <= number <= 1_000_000:
        raise ConfigurationError(f"{name} in the address of the store is a number of seconds from 0.01, not {text!r}")
    return number


def _connections(text: str) -> int:
    number = int(text) if text.isdecimal() and len(text) < 9 else 0
    if not _FEWEST <= number <= _MOST:
        raise ConfigurationError(
            f"{_CONNECTIONS} in the address of the store is a number from {_FEWEST} to {_MOST}, not {text!r}"
        )
    return number


def _name(parameters: Mapping[str, str]) -> str:
    user = f"{parameters['user']}@" if "user" in parameters else ""
    hosts = parameters.get("host", parameters.get("hostaddr", "")).split(",")
    ports = parameters.get("port", "").split(",")
    if len(ports) != len(hosts):
        # The driver takes one port for all of them, and refuses any other number.
        ports = ports[:1] * len(hosts)
    places = ",".join(f"{_host(host)}:{port}" if port else _host(host) for host, port in zip(hosts, ports, strict=True))
    return f"postgresql://{user}{places}/{parameters.get('dbname', '')}"


def _host(host: str) -> str:
    """Return a host as it is written in an address: one of IPv6 in brackets, and the folder of a socket coded."""
    return f"[{host}]" if ":" in host else quote(host, safe="")

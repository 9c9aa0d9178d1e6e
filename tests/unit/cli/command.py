"""A command that was carried out, in this process or another one."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Typed(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Type = Callable[..., Typed]

"""The generations of one set of read models, and which of them readers look at: in files, or in schemas.

A series makes generations and points at one of them; blocking. It raises `StoreError`. A generation that nobody points
at may be removed.
"""

from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from steptrail.infrastructure.views.postgres import PostgresSeries
    from steptrail.infrastructure.views.sqlite import SqliteSeries

Series: TypeAlias = Union["PostgresSeries", "SqliteSeries"]

"""The public view of a table: its columns in units for people, and under lasting names."""

from steptrail.projections.kernel.face import Face, PublicKind, view_of
from steptrail.projections.kernel.table import Column, ColumnKind, Table


def test_a_view_shows_seconds_dollars_days_and_instants() -> None:
    integer = ColumnKind.INTEGER
    table = Table(
        name="v12_calls",
        says="Calls.",
        key=("day",),
        columns=(
            Column("day", integer, "The day.", "days since 1970-01-01"),
            Column("started_at", integer, "Its start.", "microseconds of UTC"),
            Column("active_us", integer, "Its time.", "microseconds"),
            Column("cost_nanos", integer, "Its cost.", "10^-9 dollars"),
            Column("tokens", integer, "Its tokens.", "tokens"),
            Column("name", ColumnKind.TEXT, "Its name."),
            Column("is_late", ColumnKind.BOOLEAN, "Whether it was late."),
        ),
    )
    view = view_of(table, "0.1")
    assert (view.name, view.says, view.source) == ("calls", "Calls.", "v12_calls")
    assert [(each.name, each.sql, each.kind, each.unit) for each in view.columns] == [
        ("day", '"day"', PublicKind.DAY, ""),
        ("day_us", '"day" * 86400000000', PublicKind.INTEGER, "microseconds of UTC"),
        ("started_at", '"started_at"', PublicKind.INSTANT, ""),
        ("started_us", '"started_at"', PublicKind.INTEGER, "microseconds of UTC"),
        ("active_seconds", '"active_us"', PublicKind.SECONDS, ""),
        ("cost_usd", '"cost_nanos"', PublicKind.DOLLARS, ""),
        ("tokens", '"tokens"', PublicKind.INTEGER, "tokens"),
        ("name", '"name"', PublicKind.TEXT, ""),
        ("is_late", '"is_late"', PublicKind.BOOLEAN, ""),
    ]
    assert next((of.name, column.says) for of, column in Face(1, (view,)).columns()) == ("calls", "The day")

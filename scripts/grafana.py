# ruff: noqa: S608 - texts of ours
"""Write the dashboards for Grafana, or check that they are fresh: for PostgreSQL and for SQLite, with the same queries.

python scripts/grafana.py            write docs/dashboards/grafana-*.json
python scripts/grafana.py --check    fail when they are not what this file says
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "dashboards"

# `${__from}` and `${__to}` are the ends of the time that is looked at, in milliseconds, whatever the data source. Near
# 1970 they are small, and a server would count in 32 bits. A day is looked at if a part of it is.
_FROM, _TO = "CAST(${__from} AS bigint) * 1000", "CAST(${__to} AS bigint) * 1000 + 999"
_RUNS = f"ended_us BETWEEN {_FROM} AND {_TO}"
_DAYS = f"day_us > {_FROM} - 86400000000 AND day_us <= {_TO}"
_DAY = "day_us / 1000000 AS time"
_FAILED = "CASE WHEN status IN ('failed', 'recorded') THEN calls ELSE 0 END"


class Panel(NamedTuple):
    """One panel: `kind` is that of Grafana, `unit` one of its units, `width` of 24, and `sql` the question."""

    title: str
    kind: str
    sql: str
    says: str
    unit: str = "short"
    width: int = 8
    height: int = 8
    is_stacked: bool = False

    @property
    def is_series(self) -> bool:
        """Whether its rows are points in time."""
        return self.kind == "timeseries"


PANELS: Sequence[Panel] = (
    Panel("Runs that ended", "stat", f"SELECT count(*) AS runs FROM executions WHERE {_RUNS}", "", width=6, height=4),
    Panel(
        "Failed",
        "stat",
        "SELECT 1.0 * count(CASE WHEN status = 'failed' THEN 1 END) / nullif(count(*), 0) AS failed "
        f"FROM executions WHERE {_RUNS}",
        "The share of the runs that ended.",
        unit="percentunit",
        width=6,
        height=4,
    ),
    Panel(
        "Cost",
        "stat",
        f"SELECT coalesce(sum(cost_usd), 0) AS cost FROM executions WHERE {_RUNS}",
        "Of the runs that have prices.",
        unit="currencyUSD",
        width=6,
        height=4,
    ),
    Panel(
        "Waiting for people",
        "stat",
        "SELECT count(*) AS waiting FROM waits WHERE is_for_people",
        "Now, whatever time is looked at.",
        width=6,
        height=4,
    ),
    Panel(
        "Why runs stopped",
        "timeseries",
        f"SELECT {_DAY}, stop_reason AS metric, sum(runs) AS runs FROM stop_reasons_daily "
        f"WHERE {_DAYS} GROUP BY day_us, stop_reason ORDER BY 1, 2",
        "By day.",
        is_stacked=True,
    ),
    Panel(
        "Active time, 95 %",
        "timeseries",
        f"SELECT {_DAY}, name AS metric, max(p95_seconds) AS seconds FROM percentiles_daily "
        f"WHERE measure = 'active' AND {_DAYS} GROUP BY day_us, name ORDER BY 1, 2",
        "By day, of each agent and workflow.",
        unit="s",
    ),
    Panel(
        "Cost by day",
        "timeseries",
        f"SELECT {_DAY}, name AS metric, sum(cost_usd) AS cost FROM costs_daily "
        f"WHERE {_DAYS} GROUP BY day_us, name ORDER BY 1, 2",
        "Of each agent and workflow.",
        unit="currencyUSD",
        is_stacked=True,
    ),
    Panel(
        "Failures that are alike",
        "table",
        "SELECT error_type, error_class, name, template, count(*) AS failures, max(failed_at) AS last, "
        "max(stream) AS example, signature FROM failures "
        f"WHERE failed_us BETWEEN {_FROM} AND {_TO} "
        "GROUP BY signature, error_type, error_class, name, template ORDER BY 5 DESC LIMIT 50",
        "Runs, model calls, tool calls and nodes by signature.",
        width=16,
    ),
    Panel(
        "Tools that fail",
        "table",
        f"SELECT tool, sum(calls) AS calls, sum({_FAILED}) AS failed FROM tools_daily WHERE {_DAYS} "
        f"GROUP BY tool HAVING sum({_FAILED}) > 0 ORDER BY 3 DESC, 1 LIMIT 50",
        "And nodes of workflows, also where the run went on after that. Of whole days of UTC.",
    ),
    Panel(
        "What waits, and for what",
        "table",
        "SELECT since_at, kind, stream, name, tenant, until FROM waits ORDER BY since_us LIMIT 100",
        "Now; what has waited longest comes first.",
        width=12,
    ),
    Panel(
        "Failed runs",
        "table",
        "SELECT ended_at, stream, name, stop_reason, error_type, error_class, steps, active_seconds, cost_usd "
        f"FROM executions WHERE status = 'failed' AND {_RUNS} ORDER BY ended_us DESC LIMIT 100",
        "The newest first; `steptrail why` says more.",
        width=12,
    ),
)


class Source(NamedTuple):
    """A data source of Grafana, by its plugin."""

    plugin: str
    name: str


SOURCES: Mapping[str, Source] = {
    "postgresql": Source("grafana-postgresql-datasource", "PostgreSQL"),
    "sqlite": Source("frser-sqlite-datasource", "SQLite"),
}


def dashboard(source: Source) -> dict[str, Any]:
    """Return the dashboard, to be imported: Grafana asks which data source it is for."""
    panels: list[dict[str, Any]] = []
    x = y = row = 0
    for number, panel in enumerate(PANELS, 1):
        if x + panel.width > 24:
            x, y, row = 0, y + row, 0
        panels.append(
            {
                "id": number,
                "title": panel.title,
                "description": panel.says,
                "type": panel.kind,
                "datasource": _source(source),
                "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
                "fieldConfig": {"defaults": {"unit": panel.unit, "custom": _drawn(panel)}, "overrides": []},
                "options": {},
                "targets": [{"refId": "A", "datasource": _source(source), **_target(source, panel)}],
            }
        )
        x, row = x + panel.width, max(row, panel.height)
    return {
        "__inputs": [
            {
                "name": "DS_STEPTRAIL",
                "label": f"Steptrail's views in {source.name}",
                "type": "datasource",
                "pluginId": source.plugin,
                "pluginName": source.name,
            }
        ],
        "title": "Steptrail",
        "uid": "steptrail",
        "tags": ["steptrail"],
        "timezone": "utc",
        "time": {"from": "now-30d", "to": "now"},
        "refresh": "1m",
        "schemaVersion": 39,
        "version": 1,
        "panels": panels,
    }


def _source(source: Source) -> dict[str, str]:
    return {"type": source.plugin, "uid": "${DS_STEPTRAIL}"}


def _drawn(panel: Panel) -> dict[str, Any]:
    if not panel.is_series:
        return {}
    stacking = {"mode": "normal", "group": "A"} if panel.is_stacked else {"mode": "none"}
    return {"drawStyle": "bars" if panel.is_stacked else "line", "fillOpacity": 70, "stacking": stacking}


def _target(source: Source, panel: Panel) -> dict[str, Any]:
    if source is SOURCES["postgresql"]:
        form = "time_series" if panel.is_series else "table"
        return {"rawQuery": True, "editorMode": "code", "format": form, "rawSql": panel.sql}
    form = "time series" if panel.is_series else "table"
    return {"queryText": panel.sql, "rawQueryText": panel.sql, "queryType": form, "timeColumns": ["time"]}


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` say whether they are fresh."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    for name, source in SOURCES.items():
        path = FOLDER / f"grafana-{name}.json"
        text = json.dumps(dashboard(source), indent=2) + "\n"
        if arguments and (not path.is_file() or path.read_text("utf-8") != text):
            print(f"{path.name}: stale, run `python scripts/grafana.py`", file=sys.stderr)
            return 1
        if not arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

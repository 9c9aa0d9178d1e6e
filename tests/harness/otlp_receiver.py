"""A receiver of spans and metrics over OTLP: protobuf over HTTP.

`python otlp_receiver.py` serves it in a process of its own.
"""

import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _spans(body: bytes) -> list[dict[str, Any]]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        {
            "service": _attributes(resource.resource.attributes)["service.name"],
            "schema": scope.schema_url,
            "trace_id": span.trace_id.hex(),
            "span_id": span.span_id.hex(),
            "parent_id": span.parent_span_id.hex() or None,
            "name": span.name,
            "start": span.start_time_unix_nano,
            "end": span.end_time_unix_nano,
            "is_error": span.status.code == 2,
            "attributes": _attributes(span.attributes),
            "events": [[each.name, each.time_unix_nano, _attributes(each.attributes)] for each in span.events],
            "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links],
        }
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _metrics(body: bytes) -> dict[str, Any]:
    """Return the metrics by name: the unit, and each point with its value, or the count of a histogram."""
    request = ExportMetricsServiceRequest.FromString(body)
    found: dict[str, Any] = {}
    for resource in request.resource_metrics:
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            kind = metric.WhichOneof("data") or ""
            points = getattr(metric, kind).data_points
            found[metric.name] = {
                "service": _attributes(resource.resource.attributes)["service.name"],
                "unit": metric.unit,
                "points": [
                    [
                        _attributes(point.attributes),
                        point.count if kind == "histogram" else getattr(point, point.WhichOneof("value") or ""),
                    ]
                    for point in points
                ],
            }
    return found


class OtlpReceiver(ThreadingHTTPServer):
    """Keeps what was sent to it, and returns the spans as JSON to GET. Listens on this machine alone."""

    daemon_threads = True

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.metrics: dict[str, Any] = {}
        """The newest of each metric."""
        self.answer: Callable[[list[dict[str, Any]]], int] = lambda _: 200
        """Says with which status a request with these spans, or with metrics, is answered. Only 200 keeps them."""
        self.body = b""
        """The body of each answer."""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    @property
    def _receiver(self) -> OtlpReceiver:
        assert isinstance(self.server, OtlpReceiver)
        return self.server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        spans = _spans(body) if self.path == "/v1/traces" else []
        status = self._receiver.answer(spans) if self.path in ("/v1/traces", "/v1/metrics") else 404
        if status == 200 and self.path == "/v1/traces":
            self._receiver.headers.append(dict(self.headers.items()))
            self._receiver.spans += spans
        elif status == 200:
            self._receiver.metrics.update(_metrics(body))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"https://127.0.0.1{self.path}")
        self.send_header("Content-Length", str(len(self._receiver.body)))
        self.end_headers()
        self.wfile.write(self._receiver.body)

    def do_GET(self) -> None:
        body = json.dumps(self._receiver.spans).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        pass


if __name__ == "__main__":
    with OtlpReceiver() as receiver:
        print(receiver.url, file=sys.stdout, flush=True)
        receiver.serve_forever()

"""A receiver of traces on loopback: takes OTLP over HTTP as a collector does, and keeps every span that it was sent."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class TraceReceiver:
    """Serves from `__enter__` to `__exit__`; answers with `status`, and keeps spans only with 200."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[Span] = []
        self.status = 200
        self.requests = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    content = gzip.decompress(content)
                assert self.path == "/v1/traces"
                receiver.take(content)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The setting telemetry.traces."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, content: bytes) -> None:
        """Keep the spans of a request."""
        self.requests += 1
        request = ExportTraceServiceRequest.FromString(content)
        if self.status == 200:
            found = (scope.spans for resource in request.resource_spans for scope in resource.scope_spans)
            self.spans += [span for spans in found for span in spans]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def attributes(span: Span) -> dict[str, object]:
    """Return a span's attributes as values of Python."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in span.attributes}

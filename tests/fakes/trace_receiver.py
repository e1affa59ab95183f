"""A receiver of traces on loopback: takes OTLP over HTTP as a collector does, and keeps every span that it was sent."""

import gzip

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.fakes.loopback_server import Handler, LoopbackServer


class TraceReceiver(LoopbackServer):
    """Answers with `status`, and keeps spans only with 200."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(_Handler, port)
        self.spans: list[Span] = []
        self.status = 200
        self.requests = 0

    def take(self, content: bytes) -> None:
        """Keep the spans of a request."""
        self.requests += 1
        request = ExportTraceServiceRequest.FromString(content)
        if self.status == 200:
            found = (scope.spans for resource in request.resource_spans for scope in resource.scope_spans)
            self.spans += [span for spans in found for span in spans]


class _Handler(Handler[TraceReceiver]):
    protocol_version = "HTTP/1.0"  # or a kept connection is answered when the receiver is gone

    def do_POST(self) -> None:
        content = self.read()
        if self.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        assert self.path == "/v1/traces"
        self.stand_in.take(content)
        self.send(self.stand_in.status)


def attributes(span: Span) -> dict[str, object]:
    """Return a span's attributes as values of Python."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in span.attributes}

"""Sending spans by OTLP over HTTP, with OpenTelemetry's own SDK. Imported only where traces are wanted."""

import logging
from collections.abc import Sequence
from datetime import datetime

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from orchestrator import __version__
from orchestrator.daemon.traces.spans import SpanRecord

PATH = "/v1/traces"
PATIENCE = 5.0
"""Seconds for one request, repetitions included; so long may a dead receiver delay the daemon's stop."""
_SCOPE = InstrumentationScope("orchestrator", __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpSender:
    """Sends to one receiver, `address` without a path; OTEL_EXPORTER_OTLP_HEADERS may hold a login for it."""

    def __init__(self, address: str) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what failed is said once, by the exporter
        self._exporter = OTLPSpanExporter(endpoint=address.rstrip("/").removesuffix(PATH) + PATH, timeout=PATIENCE)
        self._resource = Resource.create({"service.name": "orchestrator", "service.version": __version__})

    def send(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether the receiver took all spans. Blocks."""
        return self._exporter.export([self._span(one) for one in spans]) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Close the connections, and give up a request that is being repeated."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no types

    def _span(self, one: SpanRecord) -> ReadableSpan:
        parent = _context(one.trace_id, one.parent_id) if one.parent_id is not None else None
        return ReadableSpan(
            name=one.name,
            context=_context(one.trace_id, one.span_id),
            parent=parent,
            resource=self._resource,
            attributes=dict(one.attributes),
            status=Status(StatusCode.ERROR if one.is_error else StatusCode.UNSET),
            start_time=_nanoseconds(one.begin),
            end_time=_nanoseconds(one.end),
            instrumentation_scope=_SCOPE,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000

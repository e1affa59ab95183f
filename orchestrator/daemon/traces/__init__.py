"""Traces for OpenTelemetry, derived from journals."""

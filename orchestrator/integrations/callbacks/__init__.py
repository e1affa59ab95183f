"""Callbacks over HTTP: where they may be sent, and the outbox that sends each until it arrives."""

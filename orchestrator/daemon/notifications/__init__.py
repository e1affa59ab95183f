"""Telling people: what is told, when, and what became of it."""

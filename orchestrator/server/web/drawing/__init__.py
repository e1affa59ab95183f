"""Drawings as SVG: pure functions from values to text, with every word escaped."""

"""Batches of issues: each issue is planned as a solution, carried out, and reported on; a failed one stops no other."""

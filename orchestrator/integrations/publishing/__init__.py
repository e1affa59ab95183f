"""How a finished change leaves: push, pull request, rounds of review, merge, release."""

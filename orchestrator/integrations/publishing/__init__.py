"""Publishing a finished change: push, pull request, rounds of review, merge, release."""

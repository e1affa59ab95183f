"""The family of pipelines that turn one ticket into one change, review or release."""

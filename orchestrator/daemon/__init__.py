"""The use cases and the execution of commands: what happens around the loop."""

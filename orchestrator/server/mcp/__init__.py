"""The Model Context Protocol at /mcp: what people's assistants may do with tasks, as tools.

endpoint.py is what the app mounts; protocol.py, the only module that imports the SDK, is loaded with the first request,
so that a daemon whose `/mcp` nobody uses does not pay for it. tools.py has the table of tools.
"""

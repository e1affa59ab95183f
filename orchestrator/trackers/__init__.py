"""Where tickets come from: Jira, GitHub, GitLab, and texts that a person hands in.

port.py tells whether a text names a ticket, and fetches it. jira.py, github.py and gitlab.py know one API each, web.py
how to ask over HTTP without being hurt, account.py who asks, texts.py what a Markdown file may say in its front matter.
jira_gateway.py has Jira's tickets by way of a registered server, gateway.py keeps that at arm's length, and
mcp_client.py is the process that speaks with it.
"""

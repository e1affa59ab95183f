"""Forges: pull requests, comments, reviews, checks and merges on GitHub and GitLab, over their HTTP APIs.

port.py says what can be asked; github.py and gitlab.py answer, each over http.py; remote.py tells which forge a remote
belongs to, login.py whose account is used. Both forges are spoken to directly and not by way of `gh` and `glab`: one
code path for both, answers with status and headers instead of a tool's text, no program of a version unknown, and a
server on loopback can stand in for them. The user's own login is used all the same: `gh auth token` hands it out.

Nothing here waits or tries again by itself. Whatever is worth repeating says after how many seconds
(`ForgeError.again_after`), and every effect is looked for before it is made, so that a repetition, also after an answer
that was lost, makes no second pull request or comment (architecture.md, law 1).
"""

"""What agents and repositories wrote, as HTML: Markdown, code in colours, changes of lines.

All of it is hostile: every text is escaped where it enters a piece of HTML, and Markdown passes a list of allowed
elements. All of it takes time in proportion to the text, within bounds; call it in a thread.
"""

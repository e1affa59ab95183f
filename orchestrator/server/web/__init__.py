"""The pages: everything an operator does in a browser, rendered by the server.

A page is a route that calls use cases and renders a template with views, whose texts are redacted; templates escape
whatever they show. Pages work without JavaScript: links and forms do everything. With it, three things are added:
parts of a page ask for themselves again when tasks have changed, forms answer in place, and times are shown in the
reader's zone.

    templates.py    rendering, and what every template knows: language, caller, filters
    languages.py    the languages of the pages; texts/ has what is not English
    page_route.py   routes whose refusals are pages instead of problem documents
    forms.py        what forms do: requests answered, tasks paused, resumed, cancelled …
    live.py         one stream of changes for each open page
    shared_parts.py parts for which many readers ask at once are rendered once
    compression.py  pages are compressed, the API is not
    pages/          one module per page; pages/task/ those of one task
    content/        Markdown, code, diffs and transcripts of agents as harmless HTML
    drawing/        timelines, graphs and charts as SVG
    static/         style sheets and scripts, all of them own files: no page asks another host

A part that follows what happens has `hx-get` with its own address, `hx-trigger="live:tasks from:body"` (any task) or
`live:task from:body` (the task that the page is about), and `hx-swap="morph:outerHTML"`, which keeps what somebody is
typing. Scripts and styles in a page are refused by its Content-Security-Policy, style attributes too.
"""

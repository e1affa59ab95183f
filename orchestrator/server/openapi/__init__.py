"""The OpenAPI document of the API: every route with each answer that it can give, and examples of all of them.

Routes say what their own use cases refuse, with `refuses`; what any request may meet is added for all of them.

    refusals.py     which problem documents a route can answer
    document.py     the document of the framework, made whole
    links.py        which answers name what other routes take
    examples.json   an example of each view, each body and each problem
"""

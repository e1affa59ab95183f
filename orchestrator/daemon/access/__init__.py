"""Who may ask what: scopes, tokens for programs, one-time links and sessions for browsers."""

"""Who asked for something, as people say it: a journal has `ada uid:1000 pid:4711`, a person reads `ada`."""

import re

_PROCESS = re.compile(r"(?P<user>.{1,200}?) uid:-?\d+(?: pid:\d+)?(?: agent:(?P<agent>\d+))?", re.DOTALL)


def person_name(by: str) -> str:
    """Return the name of a user, `agent 2 of ada` for one of their agents; any other record as it is."""
    found = _PROCESS.fullmatch(by)
    if found is None:
        return by
    return f"agent {found['agent']} of {found['user']}" if found["agent"] else found["user"]

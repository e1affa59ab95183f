"""A simulated year of nights: schedules, run windows, changes of the clocks, channels of notices that die and return.

    python -m tests.year --days 365

virtual_loop   an event loop whose time jumps, and processes in it that end as by kill -9
receivers      what is behind the network: receivers of notices that fail in every way
settings       the channels, rules, windows and schedules of the year
night_watch    the simulation with everything of the daemon that tells people
laws           what must hold of notices and reports
reasons        whether `why` told the truth
stops          whether the morning reports name every stop with its reason
"""

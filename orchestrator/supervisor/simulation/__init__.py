"""A simulated week: the real core and supervisor, and around them a world of agents, people and an account in memory.

timeline.py     time that jumps from one thing to the next
odds.py         how often what happens
account.py      the account that all agents share: usage windows, and the days of the service
trees.py        a process that can be frozen; checks
agents.py       agents: what they do in a turn, ask for, cost and leave behind
world.py        all that stays when the daemon is gone
memory.py       a store, and the plug that is pulled
hands.py        what carries commands out, as the world has it
people.py       who hands tickets in, answers late or never, pauses, cancels and raises budgets
laws.py         what must hold after every decision
tally.py        what came of it
week.py         all of it, from the first ticket to the last
"""

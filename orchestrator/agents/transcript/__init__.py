"""Reading an agent's output for people: more of each line than the program needs."""

"""Which notices go where and when: pure functions of rules and of the time that is handed to them."""

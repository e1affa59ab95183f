"""REST on the Unix socket: views are the shapes of its answers, one module per resource gives them."""

"""What every request passes before it reaches a route, each as an ASGI middleware; app.py has their order."""

"""The daemon as a service of systemd: `orchestrator service`. plan.py says what is done before anything is."""

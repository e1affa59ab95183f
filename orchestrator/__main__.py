"""`python -m orchestrator` is the command line."""

from orchestrator.cli.app import main

if __name__ == "__main__":
    main()

"""Routes by which work comes in besides tasks: webhooks, schedules, repositories by address."""

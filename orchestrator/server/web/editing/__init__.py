"""Fields of forms that change something: how they are shown, and what of them somebody changed."""

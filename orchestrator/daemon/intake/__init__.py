"""Work that comes in by itself: files of an inbox folder, tickets that queries find, webhooks that wake them."""

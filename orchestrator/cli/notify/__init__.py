"""Commands about notifications."""

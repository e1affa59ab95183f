"""The service under a systemd of its own: a Debian in a container, booted with systemd-nspawn."""

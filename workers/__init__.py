"""How a node starts: for the image, for systemd, and profiles of boards."""

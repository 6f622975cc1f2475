"""How a node starts from a checkout or an image."""

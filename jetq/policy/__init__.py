"""Decisions without I/O: same input, same answer."""

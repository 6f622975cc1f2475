"""Cameras that are open: one class for each library that can read them."""

"""Analyzers, by built-in name or as ``module:Class``."""

"""The built-in tasks: each is a name, its options and one call into jetq."""

"""The ledger in Redis: keys, scripts and the drivers' one class."""

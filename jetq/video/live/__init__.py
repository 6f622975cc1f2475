"""Live streams: the process that reads one camera, looks at its frames and hands on what it saw."""

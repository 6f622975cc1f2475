"""Values that cross the wire."""

"""The loops of a node and of the cluster, one per file. They take roles; `wire` gives them drivers."""

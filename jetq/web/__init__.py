"""Flower with the cluster's broker, prefix and queues."""

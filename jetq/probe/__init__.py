"""What a node can say about itself."""

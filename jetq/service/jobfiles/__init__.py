"""What jobs leave on their nodes: collected, kept, tidied up, served, and fetched from anywhere."""

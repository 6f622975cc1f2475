"""How the ranks of a gang are started: plans (values, no I/O), the working folder that travels, launch requests."""

"""Scripts that test claims about speed and faults, and that search rules; see README.md."""

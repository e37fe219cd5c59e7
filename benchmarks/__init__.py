"""Speed claims, each measured as a ratio against something named, in one run on one machine."""

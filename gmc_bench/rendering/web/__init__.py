"""Episodes in a browser: one file that replays them, and a page on which a policy acts live."""

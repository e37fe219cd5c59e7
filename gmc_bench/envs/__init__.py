"""Environments: the task/token interface behind gymnasium."""

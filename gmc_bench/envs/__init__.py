"""Environments: the task/token interface behind gymnasium."""

from gmc_bench.envs.registration import register

register()

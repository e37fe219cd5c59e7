"""The leaderboard as a static site: folders of HTML that need no server and no network."""

from gmc_bench.leaderboard.site.build import build_site
from gmc_bench.leaderboard.site.method import MethodPage
from gmc_bench.leaderboard.site.replays import Replays

__all__ = ["MethodPage", "Replays", "build_site"]

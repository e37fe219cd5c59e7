import pytest

from gmc_bench.robots import ROBOTS


@pytest.fixture(params=sorted(ROBOTS))
def robot(request):
    return ROBOTS[request.param]

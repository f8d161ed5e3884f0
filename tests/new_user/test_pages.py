"""README and the documentation, block by block, as a new user would run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_runner import USER_PAGES, blocks, run_page
from tests.new_user.environment import User

pytestmark = [pytest.mark.new_user, pytest.mark.timeout(900)]


@pytest.mark.parametrize("page", [page for page in USER_PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page: Path, user: User) -> None:
    run_page(page, user.directory, user.environment, str(user.python))

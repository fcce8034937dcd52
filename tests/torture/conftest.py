"""What the parts of the fault suite share: prepared indexes, and a place to try a case in."""

from pathlib import Path

import pytest

from torture.scenes import Prepared


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Folders with documents and an index of them, and what the commands of the suite make of them undisturbed."""
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a case is tried; not there yet."""
    return tmp_path / "case"

"""What the parts of the fault suite share: prepared indexes, and what is told at the end."""

from pathlib import Path

import pytest

from torture.scenes import Prepared
from torture.tallies import lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was done and what was lost."""
    if told := lines():
        terminalreporter.section("fault suite")
        for line in told:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Folders with documents and an index of them, and what the commands of the suite make of them undisturbed."""
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a case is tried; not there yet."""
    return tmp_path / "case"

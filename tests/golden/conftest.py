"""`--bless` writes the golden files anew; without it a difference is a failure."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="accept the present output as golden")


@pytest.fixture
def golden(request):
    """Compares text with the file of that name beside the test, or writes it under --bless."""
    folder = Path(request.path).parent

    def check(name: str, text: str) -> None:
        path = folder / name
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--bless", default=False):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if not path.exists():
            pytest.fail(f"{path} does not exist; run with --bless to write it")
        assert text == path.read_text(), f"{name} differs; run with --bless if this is intended"

    return check

"""Parser: the commands of rmt read their arguments, and complain about them, in one way."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line and exit code 2; flags are spelled out, "-1e-3" is a value."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)
        self._negative_number_matcher = re.compile(r"^-(\d|\.\d|inf|nan)")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")

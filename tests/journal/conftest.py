"""``dbapi_journal``, beside this file, is a store that the tests of every journal run on."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

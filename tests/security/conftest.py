"""``security_desk``, beside this file, holds what tests through the real command line share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

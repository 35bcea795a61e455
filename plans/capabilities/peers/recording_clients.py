"""Stand-ins for docker, podman and kubectl, as `planrunner/testing/recording_clients.py` describes them.

python plans/capabilities/peers/recording_clients.py FOLDER
"""

from __future__ import annotations

import sys

from planrunner.testing.recording_clients import install as install

if __name__ == "__main__":
    install(sys.argv[1])

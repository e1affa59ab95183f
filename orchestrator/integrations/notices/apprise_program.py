"""A program of its own that sends one notice with Apprise: {"url", "title", "body", "format"} on its standard input.

It answers {"sent": bool, "said": text} on its standard output. A service that hangs is ended with it.
"""

import json
import logging
import sys
from io import StringIO

from apprise import Apprise, AppriseAsset


def main() -> None:
    """Send, and say what happened."""
    given = json.load(sys.stdin)
    heard = StringIO()
    logger = logging.getLogger("apprise")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(logging.StreamHandler(heard))
    asset = AppriseAsset(app_id="orchestrator", app_desc="orchestrator", async_mode=False, secure_logging=True)
    service = Apprise(asset=asset)
    sent = bool(service.add(given["url"])) and bool(
        service.notify(title=given["title"], body=given["body"], body_format=given["format"])
    )
    json.dump({"sent": sent, "said": heard.getvalue()[-2000:]}, sys.stdout)


if __name__ == "__main__":
    main()

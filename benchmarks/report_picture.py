"""The picture of the report in the README. `python -m benchmarks.report_picture`

Plays the demo into a folder of its own and writes docs/report.png: the first screens of its first page, with all environments at
a glance, and of its PERM page, side by side in Chromium. Covers the picture alone; whether pages are right is tested
(`tests/report/test_browser.py`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report_opening import FLAGS, ROOT, chromium

PAGES = ("index.html", "measurement-4.html")
WIDTH, HEIGHT, SCALE = 1180, 1080, 0.58
"""Of one page in CSS pixels, and by how much the picture is made smaller."""
MOST_BYTES = 200_000


def take(site: Path, out: Path) -> int:
    """Writes the picture of a finished report and returns its size in bytes."""
    from playwright.sync_api import sync_playwright

    frames = "".join(f'<iframe src="{name}" scrolling="no"></iframe>' for name in PAGES)
    sheet = site / "picture.html"
    sheet.write_text(
        "<style>body { margin: 0; display: flex; background: #fbfaf7 }"
        f" iframe {{ border: 0; width: {WIDTH}px; height: {HEIGHT}px }}"
        f" iframe + iframe {{ border-left: 1px solid #dedad1 }}</style>{frames}",
        encoding="utf-8",
    )
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(
            viewport={"width": len(PAGES) * WIDTH, "height": HEIGHT}, device_scale_factor=SCALE, color_scheme="light"
        )
        page.goto(sheet.as_uri())
        for frame in page.frames[1:]:
            frame.wait_for_selector("#list .row", state="attached")
        page.screenshot(path=out)
        browser.close()
    sheet.unlink()
    return out.stat().st_size


def main() -> None:
    """Plays the demo and takes the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, help="a finished demo, so that none is played")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "report.png")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = given.site or Path(folder) / "demo"
        if given.site is None:
            subprocess.run([sys.executable, "-m", "heartloop.cli", "demo", "--out", str(site)], check=True)
        size = take(site.resolve(), given.out)
    print(f"{given.out}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"expected at most {MOST_BYTES:,} bytes; make SCALE smaller")


if __name__ == "__main__":
    main()

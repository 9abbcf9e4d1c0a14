"""Pictures of pages: shots.py DIR takes each DIR/*.html on a phone and on a desk, light and dark,
and each DIR/top-*.html, a screen of a terminal, as large as it is."""

import pathlib
import sys
from chromium import Chromium

SIZES = {"phone": (360, 800), "desk": (1280, 900)}


def main(directory):
    browser = Chromium()
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    for page in sorted(pathlib.Path(directory).glob("*.html")):
        if page.stem.startswith("top-"):
            browser.size(600, 100)
            browser.open(page.resolve().as_uri())
            screen = browser.ask("Page.getLayoutMetrics")["cssContentSize"]
            browser.size(int(screen["width"]) + 8, int(screen["height"]))
            browser.picture(page.with_suffix(".png"))
            print(page.with_suffix(".png"))
            continue
        for name, (width, height) in SIZES.items():
            for scheme in ["light", "dark"]:
                browser.size(width, height, dark=scheme == "dark")
                browser.open(page.resolve().as_uri())
                tall = browser.ask("Page.getLayoutMetrics")["cssContentSize"]["height"]
                browser.size(width, max(height, int(tall)), dark=scheme == "dark")
                picture = page.with_name(f"{page.stem}-{name}-{scheme}.png")
                browser.picture(picture)
                print(picture)
    browser.close()


main(sys.argv[1])

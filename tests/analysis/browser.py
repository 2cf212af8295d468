"""What tests in a real browser share: how it is started, and which words of an open dialogue are too faint."""

from __future__ import annotations

__all__ = ["FAINT", "FLAGS"]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
FAINT = """() => {
    const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (e) => {
        for (; e; e = e.parentElement) {
            const found = rgba(getComputedStyle(e).backgroundColor);
            if (found.length < 4 || found[3] === 1) return found;
        }
        return [255, 255, 255];
    };
    const faint = [];
    for (const e of document.querySelectorAll("dialog *")) {
        const words = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join("");
        if (!words || !e.checkVisibility() || e.disabled) continue;
        const style = getComputedStyle(e);
        const [a, b] = [light(rgba(e.ownerSVGElement ? style.fill : style.color)), light(ground(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) faint.push(words.slice(0, 30) + ": " + ratio.toFixed(2));
    }
    return faint;
}"""
"""Words in the open dialogue whose contrast is below 4.5 to 1 (WCAG 2.2, 1.4.3)."""

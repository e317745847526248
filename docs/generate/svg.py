"""`Drawing`: SVG as text.

The same call gives the same bytes with every version of every library. The files are small, their background
is transparent, and all colours are legible on white and on black.
"""

from __future__ import annotations

from html import escape

TEXT, FAINT = "#76818f", "#9aa4b1"
PURPLE, TEAL, BLUE, ORANGE, PINK = "#8d6bee", "#1a9aae", "#3b8ade", "#ea7228", "#dd4f7c"
"""The colours of `engine_sampler.explain.plots`, in shades between light and dark."""

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
MONO_WIDTH = 0.61
"""The width of a character of a monospaced font, in font sizes."""


class Drawing:
    """Shapes on a page of `width` × `height` pixels; y points down."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._shapes: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str = "none", *, opacity: float = 1,
        stroke: str = "none", radius: float = 0, dashed: bool = False,
    ) -> None:  # fmt: skip
        """A rectangle by its upper left corner."""
        style = f'fill="{fill}"' + (f' fill-opacity="{_number(opacity)}"' if opacity < 1 else "")
        style += f' stroke="{stroke}"' if stroke != "none" else ""
        style += f' rx="{_number(radius)}"' if radius else ""
        style += ' stroke-dasharray="3 3"' if dashed else ""
        self._shapes.append(f"<rect {_at(x=x, y=y, width=width, height=height)} {style}/>")

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = FAINT, *, width: float = 1,
        dashed: bool = False,
    ) -> None:  # fmt: skip
        """A straight line."""
        style = f'stroke="{colour}" stroke-width="{_number(width)}"'
        style += ' stroke-dasharray="3 3"' if dashed else ""
        self._shapes.append(f"<line {_at(x1=x1, y1=y1, x2=x2, y2=y2)} {style}/>")

    def dot(self, x: float, y: float, radius: float, fill: str) -> None:
        """A filled circle."""
        self._shapes.append(f'<circle {_at(cx=x, cy=y, r=radius)} fill="{fill}"/>')

    def text(
        self, x: float, y: float, text: str, size: float = 12, colour: str = TEXT, *, anchor: str = "start",
        bold: bool = False, mono: bool = False, struck: bool = False,
    ) -> None:  # fmt: skip
        """A line of text by the left end of its baseline, or by what `anchor` says: start, middle or end."""
        style = f'font-size="{_number(size)}" fill="{colour}"'
        style += f' text-anchor="{anchor}"' if anchor != "start" else ""
        style += ' font-weight="600"' if bold else ""
        style += ' class="mono"' if mono else ""
        style += ' text-decoration="line-through"' if struck else ""
        self._shapes.append(f"<text {_at(x=x, y=y)} {style}>{escape(text, False)}</text>")

    def svg(self) -> str:
        """The file."""
        size = f'viewBox="0 0 {_number(self.width)} {_number(self.height)}" width="{_number(self.width)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{SANS}">'
        style = f"<style>text {{ white-space: pre }} .mono {{ font-family: {MONO} }}</style>"
        title = f"<title>{escape(self.title, False)}</title>"
        return "\n".join([head, title, style, *self._shapes, "</svg>\n"])


def _at(**coordinates: float) -> str:
    return " ".join(f'{name}="{_number(value)}"' for name, value in coordinates.items())


def _number(value: float) -> str:
    """Rounded to a tenth, or to a hundredth below 1: no difference in the last bits of a float shows."""
    text = f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"
    text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

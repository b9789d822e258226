"""Set chapters on pages: one HTML file that carries its figures, and a PDF."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.chapter import Chapter, interval

TEMPLATES = Path(__file__).resolve().parent / "templates"


def html(parts: Mapping[str, Sequence[Chapter]]) -> str:
    """The report as one HTML document; figures are embedded, so that the file can be sent by itself."""
    return _environment().get_template("report.html").render(parts=parts)


def pdf(parts: Mapping[str, Sequence[Chapter]], path: Path) -> None:
    """Write the report as a PDF, figures and claims; the rows stay in the HTML."""
    from fpdf import FPDF, TextStyle

    headings = {
        f"h{level}": TextStyle(font_style="B", font_size_pt=size, color="#222222", t_margin=4, b_margin=1)
        for level, size in ((1, 15), (2, 11))
    }
    document = FPDF(format="A4")
    document.set_title("Random-matrix theory of attention: report")
    _fonts(document)
    document.add_page()
    template = _environment().get_template("print.html")
    for part, chapters in parts.items():
        for number, chapter in enumerate(chapters):
            document.write_html(template.render(part=part if number == 0 else "", chapter=chapter), tag_styles=headings)
            if chapter.figure:
                document.image(str(chapter.figure), w=document.epw, keep_aspect_ratio=True)
                document.ln(4)
    document.output(str(path))


def _fonts(document: Any) -> None:
    """DejaVu, which Matplotlib brings: the texts hold Greek letters."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for style, name in (("", "DejaVuSans"), ("B", "DejaVuSans-Bold"), ("I", "DejaVuSans-Oblique")):
        document.add_font("DejaVu", style, str(folder / f"{name}.ttf"))
    document.set_font("DejaVu", size=9)


def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["embedded"] = lambda path: base64.b64encode(Path(path).read_bytes()).decode()
    environment.globals["interval"] = interval
    return environment
